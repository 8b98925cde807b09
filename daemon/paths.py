"""Where Trimtab keeps what it remembers, what it shares with the plugin, and looks for its file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from daemon.guardian.pid_file import read_pid_file

CONFIG_VARIABLE = "TRIMTAB_CONFIG"
RUN_DIR_VARIABLE = "TRIMTAB_RUN_DIR"
ENGINE_PID_VARIABLE = "TRIMTAB_ENGINE_PID"
"""Set by `trimtab serve` for its daemon, which ends before the engine's number can belong to another process."""
ENGINE_PID_FILE_VARIABLE = "TRIMTAB_ENGINE_PID_FILE"
"""The same where the engine may be restarted: a file with the number and the start, gone while no engine runs."""


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the store: `$XDG_STATE_HOME/trimtab`, else `~/.local/state/trimtab`."""
    base = environ.get("XDG_STATE_HOME")
    # The XDG rules say that a relative path is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "state"
    return root / "trimtab"


def run_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder shared with the plugin: `$TRIMTAB_RUN_DIR`, else inside the state folder."""
    chosen = environ.get(RUN_DIR_VARIABLE)
    return Path(chosen) if chosen else state_dir(environ) / "run"


def config_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The configuration file used when none is named, or None for the defaults.

    `$TRIMTAB_CONFIG` counts even if the file is missing, so that a wrong path is said and not passed over.
    """
    named = environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    base = environ.get("XDG_CONFIG_HOME")
    home = Path(base) if base and Path(base).is_absolute() else Path.home() / ".config"
    for candidate in (home / "trimtab" / "config.yaml", Path("/etc/trimtab/config.yaml")):
        if candidate.is_file():
            return candidate
    return None


def ascend_log_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where CANN writes its logs: `$ASCEND_PROCESS_LOG_PATH`, else `~/ascend/log`."""
    chosen = environ.get("ASCEND_PROCESS_LOG_PATH")
    return Path(chosen).expanduser() if chosen else Path.home() / "ascend" / "log"


_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def engine_key(url: str) -> str:
    """A short file-name-safe key of an engine's address; one engine of this host has one, however it is spelled."""
    parts = urlsplit(url)
    host = "127.0.0.1" if parts.hostname in _LOOPBACK else parts.hostname
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return hashlib.sha256(f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}".encode()).hexdigest()[:12]


def engine_pid(environ: Mapping[str, str] = os.environ) -> int | None:
    """The engine's main process where this daemon runs under `trimtab serve`, else None."""
    file = environ.get(ENGINE_PID_FILE_VARIABLE)
    if file:
        mark = read_pid_file(Path(file))
        return None if mark is None else mark.pid
    number = environ.get(ENGINE_PID_VARIABLE, "")
    return int(number) if number.isdecimal() else None
