"""Commands find the daemon that lives, and no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.errors import USAGE, UserError
from daemon.presence import Presence, announced, find, presence_file

ENGINE = "http://127.0.0.1:8000"


def test_a_daemon_is_found_while_it_lives(tmp_path: Path) -> None:
    assert find(tmp_path, ENGINE) is None
    with announced(tmp_path, ENGINE, "http://127.0.0.1:9470"):
        assert find(tmp_path, ENGINE) == Presence(os.getpid(), "http://127.0.0.1:9470")
        assert find(tmp_path, ENGINE + "/") is not None
        assert find(tmp_path, "http://127.0.0.1:8001") is None
    assert find(tmp_path, ENGINE) is None


def test_two_daemons_beside_one_engine_are_refused(tmp_path: Path) -> None:
    with announced(tmp_path, ENGINE, "http://a"):
        with (
            pytest.raises(UserError, match="another daemon") as failure,
            announced(tmp_path, ENGINE, "http://b"),
        ):
            pass
        assert failure.value.code == USAGE
        assert find(tmp_path, ENGINE) == Presence(os.getpid(), "http://a")
        with announced(tmp_path, "http://127.0.0.1:8001", "http://c"):
            pass


@pytest.mark.parametrize("spelling", ["http://localhost:8000", "http://127.0.0.1:8000/", "http://[::1]:8000"])
def test_the_same_engine_spelled_otherwise_is_refused_too(tmp_path: Path, spelling: str) -> None:
    with (
        announced(tmp_path, ENGINE, "http://a"),
        pytest.raises(UserError, match="another daemon"),
        announced(tmp_path, spelling, "http://b"),
    ):
        pass


def test_a_killed_daemon_is_not_found(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\nfrom daemon.presence import announced\n"
        f"with announced(pathlib.Path({str(tmp_path)!r}), {ENGINE!r}, 'http://x'):\n"
        "    print('there', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = find(tmp_path, ENGINE)
        assert found is not None
        assert found.pid == process.pid
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert presence_file(tmp_path, ENGINE).read_text() != ""
    assert find(tmp_path, ENGINE) is None


def test_a_damaged_record_is_nobody(tmp_path: Path) -> None:
    with announced(tmp_path, ENGINE, "http://x"):
        presence_file(tmp_path, ENGINE).write_text("{")
        assert find(tmp_path, ENGINE) is None


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"set engine\.run_dir"),
        announced(tmp_path / "file" / "run", ENGINE, "x"),
    ):
        pass
