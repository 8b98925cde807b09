"""The hand keeps the contract of `HostControl`, on a laid host of 8 nodes and on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from change.host import HostControl
from daemon.host.parts import host_hand
from tests.change.host_contract import HostContract
from tests.daemon.host.laid import LaidHost
from tests.daemon.host.real_program import HERE, NODE, Program


class TestLaidHost(HostContract):
    @contextmanager
    def host(self) -> Iterator[HostControl]:
        with tempfile.TemporaryDirectory() as folder:
            yield LaidHost(Path(folder)).hand()


@pytest.mark.skipif(len(HERE) < 2, reason="needs a NUMA node with two CPUs that this test may use")
class TestThisMachine(HostContract):
    @contextmanager
    def host(self) -> Iterator[HostControl]:
        # Without short-lived threads: which there are differs from reading to reading.
        program = Program("calm")
        try:
            yield host_hand(lambda: program.process.pid, near=lambda pids: (NODE,), reading_seconds=0.2)
        finally:
            program.end()
