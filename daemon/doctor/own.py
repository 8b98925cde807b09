"""What Trimtab itself needs: folders, store, address, its daemon."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

from daemon import credentials
from daemon.config import Config
from daemon.doctor.finding import Finding
from daemon.errors import ConfigError
from daemon.presence import find
from store import StoreError, open_store
from web.bind import UnsafeBind, check_bind

LOW_SPACE_BYTES = 500 * 1024 * 1024


def folders(config: Config) -> list[Finding]:
    """The run folder with its locks, the store, the kill switch."""
    rows = [_run_dir(config.run_dir)]
    try:
        open_store(config.store_url).close()
    except StoreError as error:
        rows.append(
            Finding("permissions", "store", "bad", str(error), "no change is made without it: set store.url")
        )
    else:
        rows.append(_space(config))
    stop = config.kill_switch_file
    if stop.exists():
        rows.append(
            Finding("permissions", "kill switch", "warn", f"{stop} exists: nothing is tried", f"rm {stop}")
        )
    return rows


def _run_dir(folder: Path) -> Finding:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return Finding(
            "permissions",
            "run folder",
            "bad",
            f"{folder}: {error.strerror}",
            "no change is made without the lock: set engine.run_dir to a local folder this user may write",
        )
    return Finding("permissions", "run folder", "ok", f"{folder}, locks work")


def _space(config: Config) -> Finding:
    place = config.store_url.removeprefix("sqlite:///")
    folder = Path(place).parent
    free = shutil.disk_usage(folder).free if folder.is_dir() else None
    if free is not None and free < LOW_SPACE_BYTES:
        return Finding(
            "permissions", "store", "warn", f"{place}, {free / 2**20:.0f} MiB free", "free some space"
        )
    return Finding("permissions", "store", "ok", place)


def web(config: Config) -> list[Finding]:
    """Whether the web server may listen where it is told to."""
    try:
        check_bind(config.web.host, credentials.web_token(config))
    except (UnsafeBind, ConfigError) as error:
        return [Finding("web", "address", "bad", str(error), "set web.token_file or bind 127.0.0.1")]
    return [Finding("web", "address", "ok", f"{config.web.host}:{config.web.port}{config.web.root_path}")]


def running_daemon(config: Config) -> Finding:
    """The daemon that looks after this engine."""
    presence = find(config.run_dir, config.engine.url)
    if presence is None:
        return Finding("web", "daemon", "unknown", "not running for this engine", "start it: trimtab run")
    return Finding("web", "daemon", "ok", f"pid {presence.pid} at {presence.url}")
