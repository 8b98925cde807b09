"""The host lane with a daemon beside it, and with the process that changes it killed half-way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from tests.daemon.commands.test_run import Daemon
from tests.daemon.host.real_program import HERE, SPLIT, Program
from tests.daemon.trimtab_command import Trimtab

pytestmark = pytest.mark.skipif(
    len(HERE) < 2, reason="needs a NUMA node with two CPUs that this test may use"
)
WAIT_SECONDS = 120.0


def test_the_daemon_changes_the_host_for_a_command(trimtab: Trimtab, config: str, program: Program) -> None:
    before = program.lasting()
    daemon = Daemon(config)
    try:
        assert trimtab("host", "apply", SPLIT, "--yes", "-c", config).code == 0
        assert trimtab("history", "--json", "-c", config).json[0]["actor"] == "operator"
        assert program.lasting() != before
        assert trimtab("host", "apply", "swappiness=1", "--yes", "-c", config).code == 1
        assert trimtab("host", "apply", "placement=as_found", "--yes", "-c", config).code == 0
        assert program.lasting() == before
        assert trimtab("host", "rollback", "2", "-c", config).code == 0
        assert program.lasting() == before
    finally:
        assert daemon.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("moved", [1, 3, 6])
def test_a_command_killed_half_way_leaves_nothing_half_placed(
    trimtab: Trimtab, config: str, program: Program, moved: int
) -> None:
    before = program.lasting()
    words = ["host", "apply", SPLIT, "--yes", "-c", config]
    child = subprocess.Popen([sys.executable, "-P", "-m", "daemon.cli", *words])
    deadline = time.monotonic() + WAIT_SECONDS
    while (
        sum(cpus != before[tid] for tid, cpus in program.lasting().items()) < moved and child.poll() is None
    ):
        assert time.monotonic() < deadline
    child.kill()
    child.wait()
    # The next command ends what was left open, whatever it is asked to do itself.
    told = trimtab("host", "rollback", "--json", "-c", config)
    rows = trimtab("history", "--json", "-c", config).json
    assert all(row["state"] == "closed" for row in rows), json.dumps(rows)
    assert told.code == (0 if rows[-1]["outcome"] == "done" else 1)
    assert program.lasting() == before
