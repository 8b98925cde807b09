"""What is found here: devices, tools, versions, engine, plugin, permissions; and the mend for each.

Every look takes a bounded time. Nothing is changed but Trimtab's own: a test file in the run folder, and a store that
is not there yet is made.
"""

from __future__ import annotations

from pathlib import Path

from daemon.config import Config
from daemon.doctor import devices, engine, machine, own
from daemon.doctor.finding import Finding


async def examine(config: Config, root: Path = Path("/")) -> list[Finding]:
    """Look at everything; `root` is where the machine's own files are found."""
    return [
        *machine.host(),
        *machine.ascend(root),
        *devices.device_files(config, root),
        *await devices.npu_smi(config),
        *await engine.engine(config),
        *own.folders(config),
        *own.web(config),
        own.running_daemon(config),
    ]
