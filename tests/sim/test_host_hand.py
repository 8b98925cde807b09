"""The port's contract, held by the simulated host."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from change.host import HostControl
from sim.node import Node
from tests.change.host_contract import HostContract


class TestSimulatedHost(HostContract):
    """The host of the 32B story."""

    def host(self) -> AbstractContextManager[HostControl]:
        host = Node("ttft-32b", 101, 0.0).host
        assert host is not None
        return nullcontext(host)
