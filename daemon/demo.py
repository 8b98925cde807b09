"""`trimtab demo --headless`: the main job on the simulated node in virtual time, with the truth beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bench import cold_truth
from bench.truth import Truth
from change.choices import Options, worded
from change.engine import Values
from daemon import headless
from daemon.tuning import Tuning
from sim.scenario import SCENARIOS
from tuner.campaign import MakeProposer
from tuner.proposer import Proposer


def headless_report(
    scenario: str,
    seed: int,
    minutes: float | None = None,
    make_proposer: MakeProposer = Proposer,
    restarts: int | None = None,
) -> dict[str, Any]:
    """The report of one campaign in virtual time, with `truth` (noise-free values of the objective).

    `restarts` is the scenario's own number unless given. `truth` is None where the campaign ended before it knew its
    objective.
    """
    chosen = SCENARIOS[scenario]
    allowed = chosen.restarts if restarts is None else restarts
    if allowed:
        return _with_restarts(scenario, seed, allowed, minutes, make_proposer)
    report, serving, tuning = asyncio.run(
        headless.campaign(chosen, seed, minutes, make_proposer=make_proposer)
    )
    report["scenario"], report["seed"] = scenario, seed
    story = chosen.drawn(seed).host
    options: Options = {} if story is None else story.options
    report["serving"] = worded(serving, options)
    report["truth"] = _truth(scenario, seed, serving, tuning, options)
    return report


def _with_restarts(
    scenario: str, seed: int, restarts: int, minutes: float | None, make_proposer: MakeProposer
) -> dict[str, Any]:
    chosen = SCENARIOS[scenario]
    report, node, tuning = headless.outer_campaign(
        chosen, seed, restarts, minutes, make_proposer=make_proposer
    )
    serving = dict(node.control.read_state().values)
    report["scenario"], report["seed"], report["serving"] = scenario, seed, serving
    report["truth"] = None
    scale = None if tuning.mind is None else tuning.mind.standings.scale
    if scale is not None:
        truth = Truth(scenario, seed, tuning.slo, scale, tuning.settings.max_regression)
        incumbent = report["incumbent"]
        best = cold_truth.best(truth, incumbent)
        exact = cold_truth.exact(truth)
        report["truth"] = {
            "incumbent": exact.value(incumbent),
            "winner": exact.under(node.cold).value(serving),
            "best": exact.under(best.settings).value(best.values),
            "best_values": dict(best.values),
            "best_settings": dict(best.settings),
        }
    return report


def _truth(
    scenario: str, seed: int, serving: Values, tuning: Tuning, options: Options
) -> Mapping[str, Any] | None:
    campaign = tuning.campaign
    if campaign is None or campaign.results is None:
        return None
    truth = Truth(scenario, seed, tuning.slo, campaign.results.scale, tuning.settings.max_regression)
    incumbent = campaign.report.incumbent
    best = truth.best(incumbent)
    return {
        "incumbent": truth.value(incumbent),
        "winner": truth.value(serving),
        "best": truth.value(best),
        "best_values": worded(best, options),
    }
