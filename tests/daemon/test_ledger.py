"""Which of the earlier campaigns' winners a campaign is told of."""

from __future__ import annotations

from daemon.headless import START
from daemon.ledger import Ledger
from sim.node import Node
from sim.scenario import SCENARIOS
from store import Store, open_store
from tuner.messages import Ended, PhaseChanged
from tuner.settings import Slo, TuneSettings

WINNER = {"max_num_seqs": 64.0}
TRAFFIC = {"requests_per_second": 2.0}


def promoted(store: Store, parent: int | None = None, cold_trial: int | None = None) -> int:
    """One campaign that promoted `WINNER`; its number."""
    ledger = Ledger(store, "simulated", parent, cold_trial)
    state = Node(SCENARIOS["default"], 7, START).control.read_state()
    number = ledger.open(state, START, TuneSettings(), Slo())
    assert (
        ledger.write(
            START + 60.0, [PhaseChanged("race", TRAFFIC, {}, {}), Ended("promoted", {"winner": WINNER})]
        )
        is None
    )
    return number


def test_a_winner_found_on_the_incumbent_is_reused_also_from_inside_a_cold_campaign() -> None:
    store = open_store("sqlite:///:memory:")
    promoted(store, parent=promoted(store))
    assert Ledger(store, "simulated").past_winners(TRAFFIC) == [WINNER, WINNER]


def test_a_winner_found_inside_a_cold_candidate_is_not_reused_on_the_incumbent() -> None:
    store = open_store("sqlite:///:memory:")
    promoted(store, parent=promoted(store), cold_trial=2)
    assert Ledger(store, "simulated").past_winners(TRAFFIC) == [WINNER]
