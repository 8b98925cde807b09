"""A whole restart with the docker hand on a real Docker daemon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from change.journal import Journal
from change.restart.milestones import STEP_SECONDS
from change.restart.order import RestartOrder
from change.restart.parts import Parts
from change.restart.ports import Card, ProbeFailed
from change.restart.restart import Restart
from change.restart.settings import RestartSettings
from change.server import EngineServer
from daemon.wall_clock import WallClock
from sim.node import Node
from sim.server_ground import SimulatedGround, SimulatedProbe
from sim.server_hand import SimulatedServer
from store import open_store
from tests.change.server_contract import Stand
from tests.daemon.engine.docker_daemon import DockerDaemon, docker_daemon
from tests.daemon.engine.docker_stand import DECOY, NAME, OTHER, POLICY, in_stand

pytestmark = pytest.mark.debian("dockerd", "busybox")


@pytest.fixture(scope="module")
def daemon() -> Iterator[DockerDaemon]:
    with docker_daemon() as one:
        yield one


class OnlyOne(SimulatedProbe):
    """The probe of an engine that serves from one container alone: what it needs was put there by hand."""

    daemon: DockerDaemon
    id: str

    async def healthy(self) -> bool:
        found = self.daemon.inspect(NAME)
        return bool(found["State"]["Running"]) and found["Id"] == self.id

    async def inside(self) -> int | None:
        return 0

    async def one_token(self) -> None:
        if not await self.healthy():
            raise ProbeFailed("connection refused")


class Unseen(SimulatedGround):
    """A host without cards."""

    async def cards(self) -> list[Card]:
        return []


def test_the_kept_container_itself_is_the_last_resort_of_a_restart(daemon: DockerDaemon) -> None:
    async def test(stand: Stand, server: EngineServer) -> None:
        clock = WallClock()
        aside = SimulatedServer(Node("default", 1, clock.now()), clock)
        probe = OnlyOne(aside, clock)
        probe.daemon, probe.id = daemon, daemon.inspect(NAME)["Id"]
        settings = RestartSettings(step_seconds=dict.fromkeys(STEP_SECONDS, 1.0))
        journal = Journal(open_store("sqlite:///:memory:"), "http://engine:8000")
        parts = Parts(server, aside.node.control, Unseen(aside), probe, clock, journal, settings)
        result = await Restart(parts, RestartOrder({}, OTHER, "operator")).run()
        assert result.outcome == "returned", result.reason
        found = daemon.inspect(NAME)
        assert (found["Id"], found["State"]["Running"]) == (probe.id, True)
        assert found["HostConfig"]["RestartPolicy"] == POLICY
        assert {one["Names"][0] for one in daemon.containers(running=False)} == {f"/{NAME}", f"/{DECOY}"}

    in_stand(daemon, test)
