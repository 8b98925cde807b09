"""A short form of the kills at random points of restarts; `bench.acceptance restart-crash` has a hundred."""

from __future__ import annotations

import pytest

from bench.restart_crash import crash, figures
from store import Store, open_store


@pytest.fixture(scope="module")
def store() -> Store:
    return open_store("sqlite:///:memory:")


@pytest.mark.parametrize("seed", range(701, 725))
def test_a_kill_at_any_point_ends_on_what_is_known_to_be_good(store: Store, seed: int) -> None:
    found = crash(store, seed)
    assert found.wrong == (), figures([found])
