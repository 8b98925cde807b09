"""Processes are known again however the clock is set."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psutil
import pytest

from daemon.guardian.attendance import lives as attends
from daemon.guardian.owned import Owned
from daemon.guardian.wire import Peer
from daemon.process_mark import lives, mark_of, process_mark

WAITS = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@contextmanager
def stepped_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    """What the kernel shows after somebody set the clock: the boot's time moved with it."""
    before = psutil.boot_time()
    with monkeypatch.context() as patch:
        patch.setattr("psutil._pslinux.boot_time", lambda: before + seconds)
        yield


def test_a_step_of_the_clock_makes_nobody_another(monkeypatch: pytest.MonkeyPatch) -> None:
    before = process_mark(os.getpid())
    assert before is not None
    with stepped_clock(monkeypatch, 1.0):
        assert process_mark(os.getpid()) == before
        assert mark_of(psutil.Process()) == before
        assert lives(before)
        assert attends(Peer(os.getpid(), before))


def test_a_signal_reaches_the_owned_process_after_a_step_of_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = Owned([sys.executable, "-c", "import time; time.sleep(600)"], os.environ)
    try:
        with stepped_clock(monkeypatch, 1.0):
            assert child.send(signal.SIGTERM)
        assert child.wait(30.0) == 128 + signal.SIGTERM
    finally:
        child.send(signal.SIGKILL)


def test_another_start_or_another_boot_is_another_process() -> None:
    mark = process_mark(os.getpid())
    assert mark is not None
    assert not lives(replace(mark, started=mark.started - 0.01))
    assert not lives(replace(mark, boot="another"))


def test_who_has_ended_lives_no_more_buried_or_not() -> None:
    child = subprocess.Popen(WAITS, stdin=subprocess.PIPE)
    mark = process_mark(child.pid)
    assert mark is not None
    assert lives(mark)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not lives(mark)
    child.communicate()
    assert not lives(mark)
    assert process_mark(child.pid) is None
