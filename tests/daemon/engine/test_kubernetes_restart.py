"""A whole restart with the kubernetes hand on a stand-in for an API server, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from change.journal import Journal
from change.restart.order import RestartOrder
from change.restart.parts import Parts
from change.restart.restart import Restart
from change.server import Settings
from daemon.engine.kubernetes import KubernetesServer
from sim.node import Node
from sim.server_ground import SimulatedGround, SimulatedProbe
from sim.server_hand import SimulatedServer
from store import open_store
from tests.daemon.engine.cluster import Cluster
from tests.daemon.engine.cluster_stand import Room, VirtualClock, launch, within


class Service(SimulatedProbe):
    """The probe of an engine behind a Service: any replica that is ready may answer, an old one too."""

    cluster: Cluster

    async def healthy(self) -> bool:
        return any(engine.ready for engine in self.cluster.living())

    async def effective(self, log: Sequence[str]) -> Settings:
        ready = [engine for engine in self.cluster.living() if engine.ready]
        return {"block_size": int(ready[0].argv[-1])}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_restart_of_several_replicas_is_judged_by_the_new_ones(tmp_path: Path, kind: str) -> None:
    async def test(room: Room, server: KubernetesServer) -> None:
        clock = VirtualClock(room.cluster)
        aside = SimulatedServer(Node("default", 1, clock.now()), clock)
        ground = SimulatedGround(aside)
        probe = Service(aside, clock)
        probe.cluster = room.cluster
        journal = Journal(open_store("sqlite:///:memory:"), "http://qwen:8000")
        parts = Parts(server, aside.node.control, ground, probe, clock, journal)
        order = RestartOrder({"block_size": 64}, launch("--block-size", "64"), "operator")
        result = await Restart(parts, order).run()
        assert result.outcome == "served", result.reason
        assert [engine.argv[-1] for engine in room.cluster.living() if engine.ready] == ["64"] * 3
        assert "trimtab/before" not in room.annotations

    within(tmp_path, test, kind=kind, replicas=3)
