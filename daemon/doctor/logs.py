"""What the logs that were written lately tell of."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime

from collectors.blocking import Blocking
from collectors.logs.tails import Tails, read_tails
from collectors.logs.tally import Episode
from daemon.assembly import log_patterns
from daemon.config import Config
from daemon.doctor.finding import Finding

LOOK_SECONDS = 15.0
MOST_ROWS = 20


async def findings(config: Config) -> list[Finding]:
    """One row for each error that the ends of the log files have, the gravest first."""
    if not config.collect.logs.enabled:
        return [Finding("logs", "events", "unknown", "not looked at: collect.logs.enabled is false")]
    patterns = log_patterns(config)
    reading: Blocking[Tails] = Blocking("doctor-logs", "is a file system of the logs dead?")
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            tails = await reading.run(lambda: read_tails(patterns, time.time()))
    except TimeoutError:
        said = f"the logs could not be read within {LOOK_SECONDS:g} s"
        return [Finding("logs", "events", "unknown", said, "is a file system of the logs dead?")]
    grave = [one for one in tails.episodes if one.event.signature.severity in ("critical", "error")]
    grave.sort(key=lambda one: (one.event.signature.severity != "critical", -one.last))
    rows = [_row(one) for one in grave[:MOST_ROWS]]
    rows += [Finding("logs", "files", "unknown", note) for note in tails.notes]
    if grave[MOST_ROWS:]:
        rows.append(Finding("logs", "events", "warn", f"{len(grave) - MOST_ROWS} more kinds of errors"))
    if not tails.files:
        said, mend = (
            "no log file was written within the last day",
            "name the engine's own: collect.logs.engine",
        )
        rows.append(Finding("logs", "events", "unknown", said, mend))
    elif not grave:
        rows.append(
            Finding("logs", "events", "ok", f"no error in the ends of {tails.files} files of the last day")
        )
    return rows


def _row(one: Episode) -> Finding:
    signature = one.event.signature
    written = datetime.fromtimestamp(one.last).astimezone().strftime("%Y-%m-%d %H:%M")
    found = f"{one.count} times, {signature.meaning}; first in {one.path}; written until {written}"
    playbook = f" (playbook {signature.playbook})" if signature.playbook else ""
    return Finding("logs", signature.id, "warn", found, f"{signature.cause or 'see the line'}{playbook}")
