"""The cold lane of a simulated node: the daemon's own restarts over the simulated hand, in the node's time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from change.clock import Clock
from change.journal import Journal
from change.lock import EngineLock
from change.restart.parts import Judges, Parts
from change.restart.settings import RestartSettings
from daemon.cold import Cold
from daemon.cold_assembly import sign
from daemon.notices import Notices
from sim.node import Node
from sim.server_arguments import launch_of
from sim.server_catalogue import SimulatedCatalogue
from sim.server_ground import SimulatedGround, SimulatedProbe
from sim.server_hand import SimulatedServer
from sim.virtual_time import NodeClock

DRAIN_SECONDS = 300.0
"""The guide's engine needs minutes to finish what is inside."""
POLL_SECONDS = 1.0
_UNHEARD = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
"""Dozens of lines in a second of a person's time tell nobody anything."""


@dataclass(frozen=True, slots=True)
class SimulatedCold:
    """A node's cold lane, and the hand below it; whatever restarts must run in `sim.virtual_time.live`."""

    server: SimulatedServer
    parts: Parts
    notices: Notices
    lane: Cold

    def afresh(self) -> Cold:
        """The lane as the next process builds it beside the same engine."""
        return Cold(self.parts, _catalogue(self.server.node), self.notices, log=_UNHEARD)


def simulated_cold(
    node: Node,
    journal: Journal,
    lock: Callable[[str], EngineLock] | None = None,
    clock: Clock | None = None,
    notices: Notices | None = None,
) -> SimulatedCold:
    """Build it beside a node that serves; raises `ValueError` if its scenario has no start-up settings.

    `clock` is the node's own where something else than `sim.virtual_time.live` lets it live.
    """
    catalogue = _catalogue(node)
    starts = node.drawn.starts
    clock = NodeClock(node) if clock is None else clock
    assert node.scenario.cold is not None, "the catalogue is of its cold side"
    server = SimulatedServer(
        node,
        clock,
        load_seconds=300.0 if starts is None else starts.load_seconds,
        command_line=launch_of(node.scenario.cold.launch),
    )
    parts = Parts(
        server,
        node.control,
        SimulatedGround(server),
        SimulatedProbe(server, clock),
        clock,
        journal,
        settings=RestartSettings(drain_seconds=DRAIN_SECONDS, poll_seconds=POLL_SECONDS),
        judges=Judges(classify=sign),
        lock=lock,
    )
    notices = Notices(clock.now, _UNHEARD)
    return SimulatedCold(server, parts, notices, Cold(parts, catalogue, notices, log=_UNHEARD))


def _catalogue(node: Node) -> SimulatedCatalogue:
    if node.scenario.cold is None:
        raise ValueError(f"scenario {node.scenario.name} has no start-up settings to restart with")
    return SimulatedCatalogue(node.scenario.cold)
