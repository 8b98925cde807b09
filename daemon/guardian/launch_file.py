"""The command kept for the next start, remembered beside the operator's own command that it came from."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from change.server import LaunchCommand
from daemon.guardian.wire import Command, Strict, written


class Kept(Strict):
    """The file: `given` is what `trimtab serve` was called with when `kept` was promoted."""

    given: list[str]
    kept: Command


class LaunchFile:
    """Keeps one command at `path`; it counts only while the operator's own command is the same."""

    def __init__(self, path: Path, given: Sequence[str]) -> None:
        self._path = path
        self._given = list(given)

    def read(self) -> tuple[LaunchCommand, str | None]:
        """Return what to start, and a remark where that is not the operator's command or a file was passed over."""
        own = LaunchCommand(tuple(self._given))
        try:
            status = self._path.lstat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o022 or not stat.S_ISREG(status.st_mode):
                return own, f"{self._path}: not used, another user could have written it; remove it"
            kept = Kept.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return own, None
        except (OSError, ValidationError) as error:
            return own, f"{self._path}: not used, it cannot be read ({type(error).__name__})"
        if kept.given != self._given:
            return own, f"{self._path}: not used, the command of `trimtab serve` is another one now"
        if kept.kept.launch() == own:
            return own, None
        return (
            kept.kept.launch(),
            f"the engine starts with the command that was kept; remove {self._path} for yours",
        )

    def keep(self, command: LaunchCommand) -> None:
        """Write the command, so that it is there whole or not at all; raises `OSError`."""
        if command == LaunchCommand(tuple(self._given)):
            self._path.unlink(missing_ok=True)
            _sync(self._path.parent)
            return
        beside = self._path.with_name(self._path.name + ".new")
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(written(Kept(given=self._given, kept=Command.of(command))))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        _sync(self._path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
