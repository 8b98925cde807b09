"""Whether the mind may act: the mode, the pause and the kill-switch file."""

from __future__ import annotations

from pathlib import Path

from daemon.config import Mode
from daemon.quiet_hours import QuietHours, local_minute


class Modes:
    """The mode, and what stops the mind in any mode.

    The pause is a file in the run folder, so that a restart of the daemon does not end it.
    """

    def __init__(
        self, mode: Mode, pause_file: Path, kill_switch: Path, quiet_hours: tuple[QuietHours, ...]
    ) -> None:
        self.mode: Mode = mode
        self._pause_file = pause_file
        self._kill_switch = kill_switch
        self._quiet_hours = quiet_hours
        self._paused_here = False

    @property
    def paused(self) -> bool:
        """Whether somebody paused Trimtab."""
        return self._paused_here or _there(self._pause_file)

    def pause(self) -> str | None:
        """Stop the mind; returns what is wrong if the pause will not outlive this process."""
        self._paused_here = True
        try:
            self._pause_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._pause_file.touch()
        except OSError as error:
            return (
                f"the pause ends with this process: {self._pause_file} cannot be written ({error.strerror})"
            )
        return None

    def resume(self) -> str | None:
        """Let the mind go on; returns what still stops it."""
        try:
            self._pause_file.unlink(missing_ok=True)
        except OSError as error:
            return f"still paused: {self._pause_file} cannot be removed ({error.strerror})"
        self._paused_here = False
        if _there(self._kill_switch):
            return f"still stopped by the kill-switch file {self._kill_switch}: remove it"
        return None

    def halted(self) -> str | None:
        """Why neither mind may change anything in any mode, or None."""
        if _there(self._kill_switch):
            return f"stopped by the kill-switch file {self._kill_switch}"
        return "paused" if self.paused else None

    def stopped(self, now: float) -> str | None:
        """Why nothing may be tried now, or None: quiet hours are about trying, not about mending."""
        halted = self.halted()
        if halted is not None:
            return halted
        minute = local_minute(now)
        for span in self._quiet_hours:
            if span.holds(minute):
                return f"quiet hours {span}"
        return None


def _there(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # A switch that cannot be looked at counts as thrown.
        return True
    return True
