"""What is found here: devices, tools, versions, engine, plugin, logs, permissions; and the mend for each.

Every look takes a bounded time. Nothing is changed but Trimtab's own: a test file in the run folder, and a store that
is not there yet is made.
"""

from __future__ import annotations

from pathlib import Path

from daemon.config import Config
from daemon.doctor import access, devices, engine, holders, logs, machine, own, versions
from daemon.doctor.finding import Finding


async def examine(config: Config, root: Path = Path("/")) -> list[Finding]:
    """Look at everything; `root` is where the machine's own files are found."""
    return [
        *machine.host(),
        *versions.findings(config.engine.url, root),
        *devices.device_files(config, root),
        *await devices.npu_smi(config),
        *holders.findings(root),
        *await engine.engine(config),
        *await engine.watched(config),
        *await logs.findings(config),
        *access.findings(config, root),
        *own.folders(config),
        *own.web(config),
        own.running_daemon(config),
    ]
