"""`trimtab demo --headless`: the main job on the simulated node in virtual time, with the truth beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bench.truth import Truth
from change.choices import Options, worded
from change.engine import Values
from daemon import headless
from daemon.tuning import Tuning
from sim.scenario import SCENARIOS
from tuner.campaign import MakeProposer
from tuner.proposer import Proposer


def headless_report(
    scenario: str, seed: int, minutes: float | None = None, make_proposer: MakeProposer = Proposer
) -> dict[str, Any]:
    """The report of one campaign in virtual time, with `truth` (noise-free values of the objective).

    `truth` is None where the campaign ended before it knew its objective.
    """
    chosen = SCENARIOS[scenario]
    report, serving, tuning = asyncio.run(
        headless.campaign(chosen, seed, minutes, make_proposer=make_proposer)
    )
    report["scenario"], report["seed"] = scenario, seed
    story = chosen.drawn(seed).host
    options: Options = {} if story is None else story.options
    report["serving"] = worded(serving, options)
    report["truth"] = _truth(scenario, seed, serving, tuning, options)
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
