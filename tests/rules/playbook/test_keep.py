"""An act with `keep` stays once it is done: at every end of the walk, after `undo`, and after a crash."""

from __future__ import annotations

import pytest

from rules.playbook.messages import UndoAct
from store import Store
from store.alert_models import RunAct
from tests.rules.playbook.stand import HOT, Stand, alert, playbooks

AWAY = """
playbooks:
  - name: hot
    title: A hot card
    description: Traffic leaves, then the batch is halved.
    target: npu
    cooldown: 30min
    steps:
      - {name: hot, check: npu_temperature_celsius > 85}
      - {name: away, act: {kind: set_knobs, arguments: {batch_max_tokens: 1024}}, keep: true}
      - {name: relieve, act: {kind: set_knobs, arguments: {max_num_seqs: x0.5}}}
      - {name: cooler, verify: npu_temperature_celsius < 85, within: 30s, "no": END}
"""
KEPT = {"max_num_seqs": 256.0, "batch_max_tokens": 1024.0}


def standing(store: Store, end: str) -> Stand:
    stand = Stand(store, playbooks(AWAY.replace("END", end)))
    stand.runner.take([alert()], stand.now)
    return stand


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("end:inconclusive", "inconclusive"),
        ("end:failed", "failed"),
        ("undo", "rolled_back"),
    ],
)
def test_it_stays_where_the_rest_is_put_back_and_is_told(store: Store, end: str, state: str) -> None:
    stand = standing(store, end)
    stand.tick(celsius=90, times=20)
    assert stand.run().state == state
    assert "stays until a person puts it back: away (change" in stand.run().reason
    assert stand.engine.values == KEPT
    assert [row.state for row in stand.rows(RunAct)] == ["kept", "undone"]


def test_without_it_nothing_stays(store: Store) -> None:
    stand = Stand(store, playbooks(AWAY.replace(", keep: true", "").replace("END", "end:failed")))
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=90, times=20)
    assert stand.run().state == "failed"
    assert stand.engine.values == stand.engine.first


def test_a_run_that_kept_all_it_did_has_failed_and_was_not_rolled_back(store: Store) -> None:
    text = HOT.replace("timeout: 60s", "timeout: 60s\n        keep: true")
    stand = Stand(store, playbooks(text))
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=90, times=80)
    assert stand.run().state == "failed"
    assert stand.engine.values["max_num_seqs"] == 128


def test_one_that_fails_half_way_is_put_back(store: Store) -> None:
    stand = standing(store, "end:failed")
    stand.engine.fails = "the hook ended with 1"
    stand.tick(celsius=90, times=20)
    assert stand.run().state == "failed"
    assert stand.engine.values == stand.engine.first


@pytest.mark.parametrize("ticks", range(1, 12))
def test_a_crash_leaves_it_at_whatever_point_and_puts_the_rest_back(store: Store, ticks: int) -> None:
    stand = standing(store, "end:failed")
    stand.tick(celsius=90, times=ticks)
    was_away = stand.engine.values["batch_max_tokens"] == 1024
    stand.crash()
    stand.books = {}
    stand.crash()
    stand.tick(celsius=90, times=5)
    assert stand.run().ended is not None
    assert stand.engine.values["max_num_seqs"] == 256
    assert (stand.engine.values["batch_max_tokens"] == 1024) == was_away
    assert "away" not in {stand.row(RunAct, command.act_id).step for command in stand.of(UndoAct)}


def test_one_that_was_cut_off_before_it_was_known_to_be_done_is_offered_to_a_person(store: Store) -> None:
    stand = standing(store, "end:failed")
    while stand.engine.values["batch_max_tokens"] != 1024:
        stand.tick(celsius=90)
    stand.crash()
    (offer,) = stand.runner.status(stand.now).offers
    assert offer.step == "away"
    stand.tick(celsius=90, times=3)
    assert stand.run().state == "abandoned"
    assert "no way back from" not in stand.run().reason
    assert "may be done, and is not put back: away (change" in stand.run().reason
