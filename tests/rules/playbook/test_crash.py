"""The process is killed at each point of a run, and again while it recovers: what was done is put back or kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import delete
from sqlalchemy.orm import Session

from rules.actions import Action, Outcome
from store import Store, open_store
from store.alert_models import PlaybookRun, RunAct, RunEvent
from tests.rules.playbook.stand import HOT, FakeEngine, Stand, alert, playbooks

IRREVERSIBLE = """
playbooks:
  - name: hot
    title: Restart
    description: Halves the batch, then restarts.
    target: engine
    steps:
      - {name: hot, check: npu_temperature_celsius > 85}
      - {name: relieve, act: {kind: set_knobs, arguments: {max_num_seqs: x0.5}}}
      - {name: helps, verify: npu_temperature_celsius < 85, within: 30s, "yes": end:succeeded, "no": again}
      - {name: again, act: {kind: restart}}
      - {name: cooler, verify: npu_temperature_celsius < 85, within: 30s}
"""


class Killed(BaseException):
    """No handler may catch it, as none catches a SIGKILL."""


class Fuse:
    """Kills at the n-th point that is passed."""

    def __init__(self) -> None:
        self.left: int | None = None

    def burn(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Killed


class FusedEngine(FakeEngine):
    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def act(self, action: Action) -> Outcome:
        self.fuse.burn()
        outcome = super().act(action)
        self.fuse.burn()
        return outcome

    def undo(self, undo: Mapping[str, Any]) -> Outcome:
        self.fuse.burn()
        outcome = super().undo(undo)
        self.fuse.burn()
        return outcome


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Fuse:
    fuse = Fuse()
    plain = Store.session

    @contextmanager
    def session(self: Store) -> Iterator[Session]:
        fuse.burn()
        with plain(self) as opened:
            yield opened
            fuse.burn()  # written, not committed: the file knows nothing of it
        fuse.burn()

    monkeypatch.setattr(Store, "session", session)
    return fuse


def live(stand: Stand, fuse: Fuse, kills: list[int], celsius: float) -> int:
    """Walk to the end, and start again after each kill; how many of the kills happened."""
    happened = 0
    kills = list(kills)
    fuse.left = kills.pop(0) if kills else None
    for _ in range(400):
        try:
            stand.tick(celsius=90 if stand.now < 1030 else celsius)
        except Killed:
            happened += 1
            while True:
                fuse.left = kills.pop(0) if kills else None
                try:
                    stand.crash()
                    break
                except Killed:
                    happened += 1
            stand.runner.take([alert()], stand.now)
        if stand.runner.idle and stand.now > 1100:
            break
    fuse.left = None
    return happened


def emptied(store: Store) -> Store:
    """The same store without runs: opening a new one takes longer than a walk."""
    with store.session() as session:
        for table in (RunEvent, RunAct, PlaybookRun):
            session.execute(delete(table))
    return store


def check(stand: Stand) -> None:
    (run,) = stand.rows(PlaybookRun)
    assert run.ended is not None, run.state
    acts = stand.rows(RunAct)
    values = dict(stand.engine.first)
    for act in acts:
        if act.plan["undo"] is not None:
            assert act.state in ("kept", "undone"), (act.state, run.state, run.reason)
            if act.state == "kept":
                values["max_num_seqs"] /= 2
        elif act.state == "intended":
            assert run.state == "abandoned"
            assert "no way back from: again (restart the engine)" in run.reason
    assert stand.engine.values == values
    assert stand.engine.restarts <= 1
    assert stand.lines()


@pytest.mark.parametrize("text", [HOT, IRREVERSIBLE], ids=["reversible", "irreversible"])
@pytest.mark.parametrize("celsius", [80, 90], ids=["helps", "does not help"])
def test_killed_at_every_point(fused: Fuse, store: Store, text: str, celsius: float) -> None:
    books = playbooks(text)
    for point in range(1000):
        stand = Stand(emptied(store), books)
        stand.engine = FusedEngine(fused)
        stand.runner.take([alert()], stand.now)
        happened = live(stand, fused, [point], celsius)
        check(stand)
        if not happened:
            assert point >= 15
            return
    raise AssertionError("the walk has no end")


@pytest.mark.parametrize("celsius", [80, 90], ids=["helps", "does not help"])
def test_killed_again_while_it_recovers(fused: Fuse, store: Store, celsius: float) -> None:
    books = playbooks(IRREVERSIBLE)
    for point in range(4, 40, 5):
        for again in range(0, 8, 2):
            stand = Stand(emptied(store), books)
            stand.engine = FusedEngine(fused)
            stand.runner.take([alert()], stand.now)
            live(stand, fused, [point, again, again], celsius)
            check(stand)


def test_an_irreversible_act_that_was_cut_off_is_offered(fused: Fuse, store: Store) -> None:
    stand = Stand(store, playbooks(IRREVERSIBLE))
    stand.runner.take([alert()], stand.now)
    while not stand.engine.restarts:
        stand.tick(celsius=90)
    stand.crash()
    (offer,) = stand.runner.status(stand.now).offers
    assert (offer.step, offer.text) == ("again", "restart the engine")
    stand.tick(celsius=90, times=3)
    assert stand.run().state == "abandoned"
    assert stand.engine.values == stand.engine.first
    assert stand.engine.restarts == 1


def test_a_run_that_keeps_bringing_the_daemon_down_is_left(stand: Stand) -> None:
    stand.runner.take([alert()], stand.now)
    for _ in range(4):
        stand.tick(celsius=90)
        stand.crash()
    stand.tick(celsius=90)
    assert stand.run().state == "abandoned"
    assert "stopped in the middle of this run 3 times" in stand.run().reason


def test_a_run_without_its_playbook_still_puts_back(stand: Stand) -> None:
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=90, times=4)
    stand.books = {}
    stand.crash()
    stand.tick(celsius=90, times=3)
    assert stand.run().state == "rolled_back"
    assert stand.engine.values == stand.engine.first


def test_on_a_file_as_in_memory(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/trimtab.db"
    stand = Stand(open_store(url))
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=90, times=3)
    stand.store.close()
    stand.store = open_store(url)
    stand.crash()
    stand.tick(celsius=90, times=3)
    assert stand.run().state == "rolled_back"
    assert stand.engine.values == stand.engine.first
    stand.store.close()
