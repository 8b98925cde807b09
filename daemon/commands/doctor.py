"""`trimtab doctor`: what is found here, and the mend for each."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from collectors.history import History
from daemon import assembly
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, print_table, remark
from daemon.config import Config
from daemon.doctor import examine
from daemon.doctor.bundle import write_bundle
from daemon.doctor.devices import NPU_SMI_SECONDS, run_briefly
from daemon.errors import BAD
from store import StoreError, open_store
from store.models import JournalEntry

JOURNAL_ENTRIES = 50


def doctor(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", metavar="FILE", help="Also write a redacted tar.gz to send.")
    ] = None,
) -> None:
    """Say what is found here: devices, tools, versions, engine, plugin, permissions."""
    settings = configured(config)
    findings = asyncio.run(examine(settings))
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        rows = [(f.verdict, f.area, f.name, f.found, f.mend) for f in findings]
        print_table(("", "area", "what", "found", "mend"), rows, "nothing was looked at")
    if bundle is not None:
        outputs = asyncio.run(_outputs(settings))
        names = write_bundle(bundle, settings, findings, _last_changes(settings), time.time(), outputs)
        remark(f"{bundle} holds {', '.join(names)}; look through it before you send it")
    if any(finding.verdict == "bad" for finding in findings):
        raise typer.Exit(BAD)


async def _outputs(settings: Config) -> dict[str, str]:
    """What the sources say now: npu-smi word for word, and one pass over all of them as samples."""
    found: dict[str, str] = {}
    if settings.reads_npu_smi and shutil.which(settings.collect.npu_smi.command) is not None:
        code, text = await run_briefly([settings.collect.npu_smi.command, "info"], NPU_SMI_SECONDS)
        found["npu-smi.txt"] = text if code == 0 else f"{text}\n(exit code {code})\n"
    runner = assembly.runner(settings, History(), lasting=False)
    samples = await runner.once(time.time())
    found["samples.txt"] = "".join(f"{one.name}{dict(one.labels)} {one.value}\n" for one in samples)
    found["sources.txt"] = "".join(
        f"{one.name}: {one.error or 'ok'} {' | '.join(one.detail.values())}\n" for one in runner.health()
    )
    return found


def _last_changes(settings: Config) -> list[dict[str, Any]]:
    try:
        store = open_store(settings.store_url)
    except StoreError as error:
        return [{"unreadable": str(error)}]
    try:
        with store.reading() as session:
            rows = session.query(JournalEntry).order_by(JournalEntry.id.desc()).limit(JOURNAL_ENTRIES).all()
            return [{c.key: getattr(row, c.key) for c in JournalEntry.__table__.columns} for row in rows]
    finally:
        store.close()
