"""A campaign on the simulated node in virtual time: the same mind, driver, store and journal as in the daemon."""

from __future__ import annotations

import asyncio
from typing import Any

from change.engine import Values
from change.journal import Journal
from daemon.gauges import Gauges
from daemon.lanes import LaneControl
from daemon.outer_tuning import OuterTuning
from daemon.simulated_cold import simulated_cold
from daemon.tuning import Tuning
from sim.node import Node
from sim.scenario import SCENARIOS, Scenario
from sim.virtual_time import live
from store import Store, open_store
from tuner.campaign import MakeProposer
from tuner.outer.settings import OuterSettings
from tuner.proposer import Proposer
from tuner.settings import Limit, Objective, Slo, TuneSettings

START = 1_800_000_000.0
"""Virtual time begins here, in Unix seconds."""


def slo_of(limits: dict[str, float]) -> Slo:
    """An SLO from its configuration keys, such as `ttft_p99_seconds`."""
    found = []
    for key, seconds in limits.items():
        metric, quantile, _ = key.split("_")
        found.append(Limit(metric, int(quantile[1:]) / 100, seconds))  # type: ignore[arg-type]
    return Slo(tuple(found))


def settings_of(scenario: Scenario, minutes: float | None) -> TuneSettings:
    """A scenario's campaign, for at most `minutes` simulated minutes."""
    return TuneSettings(
        knobs=scenario.knobs,
        objective=Objective(scenario.objective, scenario.quantile),  # type: ignore[arg-type]
        min_effect=scenario.min_effect,
        minutes=scenario.minutes if minutes is None else min(minutes, scenario.minutes),
    )


def node_gauges(node: Node) -> Gauges:
    """What a node's collectors would say now."""
    return Gauges(float(node.running), float(node.waiting), node.temperature_celsius, None, len(node.cards))


async def node_lanes(node: Node, journal: Journal, settings: TuneSettings) -> LaneControl | None:
    """The hot and the host lane of a node whose host is part of its story, None of another."""
    if node.host is None:
        return None
    return await LaneControl.opened(node.control, node.host, journal, lambda: node.now, settings.knobs)


async def campaign(
    scenario: Scenario,
    seed: int,
    minutes: float | None = None,
    store: Store | None = None,
    make_proposer: MakeProposer = Proposer,
) -> tuple[dict[str, Any], Values, Tuning]:
    """Run one whole campaign; returns its report, what the engine serves at the end, and the driver."""
    node = Node(scenario, seed, START)
    node.advance(START + 30.0)
    memory = store or open_store("sqlite:///:memory:")
    journal = Journal(memory, "simulated")
    settings = settings_of(scenario, minutes)
    lanes = await node_lanes(node, journal, settings)
    tuning = Tuning(
        node.control,
        memory,
        journal,
        lambda _: node_gauges(node),
        settings,
        slo_of(dict(scenario.slo)),
        engine="simulated",
        seed=seed,
        timer=None,
        make_proposer=make_proposer,
        lanes=lanes,
    )
    while not tuning.done:
        node.advance(node.now + 1.0)
        await tuning.tick(node.now)
    assert tuning.report is not None
    report = dict(tuning.report)
    report["failed_requests"] = report.get("failed_requests", 0) + node.failed_requests
    serving = (await node.control.state() if lanes is None else await lanes.state()).values
    return report, serving, tuning


def outer_campaign(
    scenario: Scenario,
    seed: int,
    restarts: int,
    minutes: float | None = None,
    store: Store | None = None,
    make_proposer: MakeProposer = Proposer,
) -> tuple[dict[str, Any], Node, OuterTuning]:
    """Run one campaign over all lanes with up to `restarts` restarts; returns its report, the node and the driver.

    Raises `ValueError` for a scenario without start-up settings.
    """
    node = Node(scenario, seed, START)
    node.advance(START + 30.0)
    memory = store or open_store("sqlite:///:memory:")
    journal = Journal(memory, "simulated")
    cold = simulated_cold(node, journal)
    tuning = OuterTuning(
        node.control,
        memory,
        journal,
        lambda _: node_gauges(node),
        settings_of(scenario, minutes),
        OuterSettings(restarts, allow=() if scenario.cold is None else scenario.cold.allow),
        slo_of(dict(scenario.slo)),
        cold.lane,
        engine="simulated",
        seed=seed,
        timer=None,
        make_proposer=make_proposer,
    )
    live(node, to_the_end(node, tuning))
    assert tuning.report is not None
    report = dict(tuning.report)
    report["failed_requests"] = report.get("failed_requests", 0) + node.failed_requests
    return report, node, tuning


async def to_the_end(node: Node, tuning: OuterTuning) -> None:
    """Drive a campaign over all lanes in the node's time, a tick each second."""
    while not tuning.done:
        await asyncio.sleep(1.0)
        await tuning.tick(node.now)


def run(scenario: str, seed: int, minutes: float | None = None) -> tuple[dict[str, Any], Values, Tuning]:
    """`campaign` for callers without a loop."""
    return asyncio.run(campaign(SCENARIOS[scenario], seed, minutes))
