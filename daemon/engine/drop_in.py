"""The drop-in files that Trimtab writes for a unit: one for good, one for a try that a reboot forgets.

`/etc/systemd/system/UNIT.d/90-trimtab.conf` holds the kept command. A try is in
`/run/systemd/system/UNIT.d/95-trimtab-try.conf`, which comes after it; there systemd does not start the engine again
by itself, so that a failed start is seen as one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel, ConfigDict, ValidationError

from change.server import LaunchCommand, ServerBusy, ServerError
from daemon.engine.unit_words import environment, exec_start
from daemon.guardian.wire import Command

MARK = "# trimtab: "


class Remembered(BaseModel):
    """What a file of ours says for ourselves: its command, and the unit's own, which it stands over.

    `unit` is a fingerprint of the unit's own ExecStart= lines as they were then; empty where it was not taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    command: Command
    own: Command
    unit: str = ""


class DropIns:
    """The files for `unit` below `root`."""

    def __init__(self, unit: str, root: Path = Path("/")) -> None:
        self._root = root
        self._folder = root / "etc/systemd/system" / f"{unit}.d"
        self._try_folder = root / "run/systemd/system" / f"{unit}.d"
        self.kept_file = self._folder / "90-trimtab.conf"
        self.try_file = self._try_folder / "95-trimtab-try.conf"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other Trimtabs out; raises `ServerBusy`."""
        try:
            self._try_folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._try_folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise _unusable(self._try_folder, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise ServerBusy(f"{self._try_folder}: another Trimtab changes the unit; wait for it") from error
        finally:
            os.close(descriptor)

    def test_writing(self) -> None:
        """Write and remove a file beside each of ours; raises `ServerError` that names the folder."""
        for folder in (self._try_folder, self._folder):
            made = [one for one in (folder, *folder.parents) if not one.exists()]
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with _new_file(folder / ".trimtab.test") as file:
                    file.write("may be removed\n")
                    file.flush()
                    os.fsync(file.fileno())
                (folder / ".trimtab.test").unlink()
                for one in made:
                    one.rmdir()
            except OSError as error:
                raise _unusable(folder, error) from error

    def fingerprint(self, fragment: str, drop_ins: Iterable[str]) -> str:
        """Of the ExecStart= lines in the unit's file and others' drop-ins; empty where they cannot be read."""
        ours = {self.kept_file.name, self.try_file.name}
        lines: list[str] = []
        try:
            for place in (fragment, *(one for one in drop_ins if Path(one).name not in ours)):
                text = (self._root / place.lstrip("/")).read_text().replace("\\\n", " ")
                lines += [
                    line.strip() for line in text.splitlines() if line.lstrip().startswith("ExecStart=")
                ]
        except (OSError, UnicodeDecodeError):
            return ""
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def tried(self) -> Remembered | None:
        """The try that is in force, if there is one."""
        return _read(self.try_file)

    def kept(self) -> Remembered | None:
        """The command that is kept, if it is not the unit's own."""
        return _read(self.kept_file)

    def put_try(self, remembered: Remembered) -> None:
        """Write a try; raises `ServerError`."""
        _write(self.try_file, remembered, ["Restart=no"])

    def drop_try(self) -> None:
        """Remove the try; raises `ServerError`."""
        _remove(self.try_file)

    def keep(self, remembered: Remembered) -> None:
        """Write the kept command; the unit's own needs no file. Raises `ServerError`."""
        if remembered.command == remembered.own:
            _remove(self.kept_file)
        else:
            _write(self.kept_file, remembered, [])


def written(remembered: Remembered, more: list[str]) -> str:
    """The text of a file; raises `ValueError` for words that no unit can hold."""
    own = {word for word in remembered.own.argv if "$" in word}
    lines = [
        "# Written by Trimtab, which replaces it. Remove it and run `systemctl daemon-reload` for the unit's own.",
        MARK + remembered.model_dump_json(),
        "[Service]",
        "ExecStart=",
        f"ExecStart={exec_start(remembered.command.argv, own)}",
        *(f"Environment={one}" for one in environment(remembered.command.environ)),
        *more,
    ]
    return "\n".join(lines) + "\n"


def launch(remembered: Remembered) -> LaunchCommand:
    """The command a file holds."""
    return remembered.command.launch()


def _read(path: Path) -> Remembered | None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ServerError(f"{path}: cannot be read ({type(error).__name__})") from error
    for line in text.splitlines():
        if line.startswith(MARK):
            try:
                return Remembered.model_validate_json(line.removeprefix(MARK))
            except ValidationError:
                break
    raise ServerError(f"{path}: was changed by another hand; remove it, then `systemctl daemon-reload`")


def _write(path: Path, remembered: Remembered, more: list[str]) -> None:
    beside = path.with_name(f".{path.name}.new")  # systemd reads names that end in .conf only
    try:
        text = written(remembered, more)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _new_file(beside) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _sync(path.parent)
    except ValueError as error:
        raise ServerError(f"the command cannot be a unit's: {error}") from error
    except OSError as error:
        raise _unusable(path, error) from error


def _new_file(path: Path) -> TextIO:
    """A fresh file for root alone: a command line may hold a key."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
        if path.parent.exists():
            _sync(path.parent)
    except OSError as error:
        raise _unusable(path, error) from error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, error: OSError) -> ServerError:
    return ServerError(f"{path}: {error.strerror}; the daemon must be root to change a unit of the host")
