"""The confirmation of one candidate: when it promotes, when it goes on, and what remains when time is up."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.adjust import NAMES, Contrast
from tuner.candidate import Candidate
from tuner.confirm import Confirmation
from tuner.judge import LOOKS, NOMINAL_LEVEL, signed_rank_p
from tuner.limits import Limits
from tuner.objective import OBJECTIVE, scale
from tuner.proposer import Proposal
from tuner.results import Results
from tuner.settings import Objective, Slo

MARGIN = 0.26
UNSURE = [0.02, 0.9, 0.01, 0.8, 0.03, 0.9, -0.02, 0.7, 0.05, 0.9, 0.04, 0.8]
"""Half of the pairs gain nothing: better than chance by the test, with a low end next to nothing."""


def confirming() -> Confirmation:
    limits = Limits(scale(Objective("itl"), Slo(), saturated=False), Slo(), 1.0)
    results = Results([], {}, limits)
    results.margin = MARGIN
    return Confirmation(Candidate(1, Proposal({}, "sampler"), 0.0), results)


def feed(confirmation: Confirmation, gains: list[float]) -> None:
    nothing = (0.0,) * len(NAMES)
    confirmation.challenger.confirmation.contrasts.extend(
        Contrast(1, {OBJECTIVE: gain}, nothing) for gain in gains
    )


def test_a_clear_gain_is_promoted_at_the_first_look() -> None:
    confirmation = confirming()
    feed(confirmation, list(np.linspace(0.4, 0.6, LOOKS[0])))
    verdict = confirmation.look()
    assert verdict is not None and verdict.outcome == "promoted"
    assert verdict.effect["pairs"] == LOOKS[0]


def test_an_early_gain_whose_low_end_is_next_to_nothing_is_looked_at_for_longer() -> None:
    assert signed_rank_p(UNSURE) <= NOMINAL_LEVEL
    confirmation = confirming()
    feed(confirmation, UNSURE)
    assert confirmation.look() is None


@pytest.mark.parametrize(("after", "outcome"), [(0.5, "promoted"), (-0.5, "inconclusive")])
def test_what_passed_a_look_is_promoted_when_time_is_up_if_it_still_gains_enough(
    after: float, outcome: str
) -> None:
    confirmation = confirming()
    feed(confirmation, UNSURE)
    confirmation.look()
    feed(confirmation, [after] * 5)
    assert confirmation.out_of_time().outcome == outcome


def test_what_passed_no_look_is_not_promoted_when_time_is_up() -> None:
    confirmation = confirming()
    feed(confirmation, [0.5] * (LOOKS[0] - 1))
    assert confirmation.look() is None
    assert confirmation.out_of_time().outcome == "inconclusive"


def test_equal_configs_are_promoted_no_more_often_than_the_level_says() -> None:
    rng = np.random.default_rng(3)
    promoted = 0
    for _ in range(400):
        confirmation = confirming()
        gains = rng.normal(0.0, 0.9, LOOKS[-1]).tolist()
        verdict = None
        for gain in gains:
            feed(confirmation, [gain])
            verdict = confirmation.look()
            if verdict is not None:
                break
        promoted += verdict is not None and verdict.outcome == "promoted"
    assert promoted <= 0.025 * 400 + 6
