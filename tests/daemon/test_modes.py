"""The pause and the kill switch stop the mind in any mode."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from daemon.config import Mode
from daemon.modes import Modes
from daemon.quiet_hours import DAY_MINUTES, QuietHours, local_minute

NOW = 1_800_000_000.0


def made(tmp_path: Path, mode: Mode = "act", quiet: tuple[QuietHours, ...] = ()) -> Modes:
    return Modes(mode, tmp_path / "run" / "paused", tmp_path / "stop", quiet)


@pytest.mark.parametrize("mode", get_args(Mode))
def test_the_kill_switch_file_stops_every_mode(tmp_path: Path, mode: Mode) -> None:
    modes = made(tmp_path, mode)
    assert modes.stopped(NOW) is None
    (tmp_path / "stop").touch()
    assert "kill-switch" in (modes.stopped(NOW) or "")
    (tmp_path / "stop").unlink()
    assert modes.stopped(NOW) is None


def test_a_pause_outlives_the_process(tmp_path: Path) -> None:
    assert made(tmp_path).pause() is None
    assert made(tmp_path).paused
    assert made(tmp_path).resume() is None
    assert not made(tmp_path).paused


def test_resume_says_what_still_stops(tmp_path: Path) -> None:
    modes = made(tmp_path)
    modes.pause()
    (tmp_path / "stop").touch()
    assert "kill-switch" in (modes.resume() or "")
    assert not modes.paused
    assert modes.stopped(NOW) is not None


def test_a_pause_holds_where_its_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    modes = made(tmp_path)
    assert "ends with this process" in (modes.pause() or "")
    assert modes.paused


def test_a_switch_that_cannot_be_looked_at_counts_as_thrown(tmp_path: Path) -> None:
    modes = Modes("act", tmp_path / "paused", Path("x" * 5000), ())
    assert modes.stopped(NOW) is not None


def test_a_dangling_link_is_a_thrown_switch(tmp_path: Path) -> None:
    (tmp_path / "stop").symlink_to(tmp_path / "nowhere")
    assert made(tmp_path).stopped(NOW) is not None


def test_quiet_hours_stop(tmp_path: Path) -> None:
    minute = local_minute(NOW)
    now_quiet = QuietHours(minute, (minute + 5) % DAY_MINUTES)
    later = QuietHours((minute + 5) % DAY_MINUTES, (minute + 9) % DAY_MINUTES)
    assert "quiet hours" in (made(tmp_path, quiet=(later, now_quiet)).stopped(NOW) or "")
    assert made(tmp_path, quiet=(later,)).stopped(NOW) is None
