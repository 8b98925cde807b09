"""The short form of the simulated measurements: whole campaigns in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench import search

pytestmark = pytest.mark.campaign


def test_most_of_the_best_gain_is_found(say: Callable[[str], None]) -> None:
    found = search.outcomes(range(101, 105))
    say(f"{search.table(found)}\n{search.summary(found)}")
    assert sum(o.share >= search.NEARLY for o in found) >= 3
    assert not any(o.worse or o.failed or o.restarts for o in found)


def test_equal_configs_are_kept(say: Callable[[str], None]) -> None:
    found = search.outcomes(range(901, 909), scenario="aa")
    promoted = sum(o.decision == "promoted" for o in found)
    say(f"{promoted} promotions of {len(found)} campaigns over equal configs")
    assert promoted <= 2


def test_the_best_default_is_kept(say: Callable[[str], None]) -> None:
    found = search.outcomes(range(101, 105), scenario="default-is-best")
    say(search.summary(found))
    assert not any(o.worse for o in found)
    assert sum(o.decision == "promoted" for o in found) <= 1
