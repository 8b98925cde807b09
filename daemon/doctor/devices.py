"""The NPUs: device files and npu-smi."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

from collectors.npu_smi import errors
from daemon.config import Config
from daemon.doctor.finding import Finding

NPU_SMI_SECONDS = 20.0


def device_files(config: Config, root: Path) -> list[Finding]:
    """The device files, which a sidecar must not have."""
    folder = root / "dev"
    try:
        cards = sorted(path for path in folder.glob("davinci[0-9]*"))
        manager = (folder / "davinci_manager").exists()
    except OSError as error:
        return [Finding("devices", "davinci", "unknown", f"{folder}: {error.strerror}")]
    if config.deployment == "sidecar":
        if cards:
            return [
                Finding(
                    "devices",
                    "davinci",
                    "bad",
                    f"{len(cards)} NPUs are mounted into the sidecar",
                    "remove the /dev/davinci mounts: an NPU belongs to the first container that opens it",
                )
            ]
        return [Finding("devices", "davinci", "ok", "none mounted, as a sidecar should be")]
    if not cards:
        return [
            Finding(
                "devices",
                "davinci",
                "unknown",
                "no /dev/davinci* here: no NPU, or not mounted into this container",
                "run Trimtab where the engine runs, or read npu-exporter (collect.npu_exporter.url)",
            )
        ]
    shut = [path.name for path in cards if not os.access(path, os.R_OK | os.W_OK)]
    rows = [
        Finding(
            "devices",
            "davinci",
            "warn" if shut else "ok",
            f"{len(cards)} NPUs" + (f", no access to {', '.join(shut)}" if shut else ""),
            "run as root or join the group HwHiAiUser" if shut else "",
        )
    ]
    if not manager:
        rows.append(
            Finding(
                "devices",
                "davinci_manager",
                "bad",
                "no /dev/davinci_manager: npu-smi cannot work",
                "mount /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc too",
            )
        )
    return rows


async def npu_smi(config: Config) -> list[Finding]:
    """Whether npu-smi is there and answers."""
    settings = config.collect.npu_smi
    if not config.reads_npu_smi:
        source = config.collect.npu_exporter.url
        if source is None:
            return [
                Finding(
                    "devices",
                    "npu-smi",
                    "unknown",
                    "not read, and no npu-exporter is named: nothing is known of the NPUs",
                    "set collect.npu_exporter.url to its /metrics",
                )
            ]
        return [Finding("devices", "npu-smi", "ok", f"not read: npu-exporter at {source} is")]
    program = shutil.which(settings.command)
    if program is None:
        return [
            Finding(
                "devices",
                "npu-smi",
                "unknown",
                f"no {settings.command} on PATH",
                "mount /usr/local/bin/npu-smi or set collect.npu_smi (command, enabled)",
            )
        ]
    code, text = await run_briefly([program, "info"], NPU_SMI_SECONDS)
    if code is None:
        return [
            Finding(
                "devices",
                "npu-smi",
                "bad",
                f"{program} info did not end within {NPU_SMI_SECONDS:g} s",
                "the driver hangs or is busy: see dmesg; nothing else should call npu-smi often",
            )
        ]
    if code != 0:
        failure = errors.of_output(text, code)
        return [
            Finding(
                "devices",
                "npu-smi",
                "bad",
                f"{program} info ended with {code}: {failure.reason}",
                failure.mend or _first(text) or "see its output",
            )
        ]
    return [Finding("devices", "npu-smi", "ok", f"{program} info answers; {_first(text)}".rstrip("; "))]


async def run_briefly(command: list[str], seconds: float) -> tuple[int | None, str]:
    """Run a program that should end soon; code None: it did not and was killed."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        return 127, str(error)
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        # A process stuck in the driver cannot even be killed: it is not waited for without end.
        try:
            async with asyncio.timeout(1.0):
                await process.wait()
        except TimeoutError:
            pass
        return None, ""
    return process.returncode, output[: 1024 * 1024].decode(errors="replace")


def _first(text: str) -> str:
    for line in text.splitlines():
        words = line.strip(" |+=-")
        if words:
            return " ".join(words.split())[:160]
    return ""
