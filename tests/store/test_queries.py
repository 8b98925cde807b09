"""What the pages and commands read, and what the retention forgets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select

from store import Store, open_store, queries
from store.models import Campaign, Decision, JournalEntry, Launch, Pair, Promoted, Trial, Window
from store.retention import Forgotten, forget

ENGINE, OTHER = "http://127.0.0.1:8000", "http://127.0.0.1:8001"


@pytest.fixture
def store() -> Iterator[Store]:
    opened = open_store("sqlite:///:memory:")
    yield opened
    opened.close()


def add_campaign(
    store: Store, engine: str = ENGINE, started: float = 100.0, ended: float | None = 200.0
) -> int:
    """One campaign with two trials, three windows, two pairs and two decisions, put in out of order."""
    campaign = Campaign(
        engine=engine,
        boot_id="b1",
        started=started,
        ended=ended,
        phase="ended" if ended else "race",
        decision="kept" if ended else None,
        objective={"name": "itl"},
        settings={},
        incumbent={"batch_max_tokens": 2048},
        fingerprint={},
        calibration={},
        report=None,
    )
    with store.session() as session:
        session.add(campaign)
        session.flush()
        number = campaign.id
        for n in (2, 1):
            session.add(
                Trial(
                    campaign_id=number,
                    number=n,
                    source="prior",
                    values={"batch_max_tokens": 256 * n},
                    effective=None,
                    state="racing",
                    reason=None,
                    started=None,
                    ended=None,
                    effect=None,
                )
            )
        for block, position, trial in ((1, 0, None), (0, 1, 1), (0, 0, None)):
            session.add(
                Window(
                    campaign_id=number,
                    block=block,
                    position=position,
                    trial=trial,
                    epoch=1,
                    applied=started,
                    start=started,
                    end=started + 1,
                    valid=True,
                    reason=None,
                    metrics={},
                    covariates={},
                )
            )
        for block, trial in ((1, 2), (0, 1)):
            session.add(
                Pair(
                    campaign_id=number,
                    block=block,
                    trial=trial,
                    phase="race",
                    gain=0.1,
                    adjusted=0.1,
                    others={},
                )
            )
        for time, kind in ((started + 2, "end"), (started + 1, "calibrated")):
            session.add(Decision(campaign_id=number, trial=None, time=time, kind=kind, text=kind, figures={}))
    return number


def add_entry(
    store: Store, boot: str, closed: float | None, engine: str = ENGINE, kind: str = "manual", **more: Any
) -> int:
    entry = JournalEntry(
        engine=engine,
        boot_id=boot,
        kind=kind,
        state="closed" if closed else "intended",
        outcome="done" if closed else None,
        intended=1.0,
        closed=closed,
        actor="cli",
        change={},
        undo={},
        **more,
    )
    with store.session() as session:
        session.add(entry)
    return entry.id


def add_launch(store: Store, boot: str, time: float, engine: str = ENGINE) -> None:
    with store.session() as session:
        session.add(
            Launch(engine=engine, boot_id=boot, engine_version="0.32.0", values={}, ceilings={}, time=time)
        )


class TestQueries:
    def test_campaigns_newest_first_of_one_engine_or_all(self, store: Store) -> None:
        first, second, other = add_campaign(store), add_campaign(store), add_campaign(store, OTHER)
        with store.reading() as session:
            assert [c.id for c in queries.campaigns(session)] == [other, second, first]
            assert [c.id for c in queries.campaigns(session, ENGINE)] == [second, first]
            assert [c.id for c in queries.campaigns(session, limit=1)] == [other]
            newest = queries.newest_campaign(session, ENGINE)
        assert newest is not None
        assert newest.id == second
        assert [trial.number for trial in newest.trials] == [1, 2]

    def test_one_campaign_whole_and_in_order_readable_after_the_session(self, store: Store) -> None:
        add_campaign(store)
        number = add_campaign(store)
        with store.reading() as session:
            whole = queries.whole_campaign(session, number)
        assert whole is not None
        assert [trial.number for trial in whole.trials] == [1, 2]
        assert [(w.block, w.position) for w in whole.windows] == [(0, 0), (0, 1), (1, 0)]
        assert [pair.block for pair in whole.pairs] == [0, 1]
        assert [decision.kind for decision in whole.decisions] == ["calibrated", "end"]

    def test_parts_of_a_campaign(self, store: Store) -> None:
        number = add_campaign(store)
        with store.reading() as session:
            assert [trial.number for trial in queries.trials(session, number)] == [1, 2]
            assert [pair.trial for pair in queries.pairs(session, number, trial=2)] == [2]

    def test_nothing_yet(self, store: Store) -> None:
        with store.reading() as session:
            assert queries.newest_campaign(session) is None
            assert queries.whole_campaign(session, 1) is None
            assert queries.journal(session) == []
            assert queries.promoted(session, ENGINE) is None

    def test_the_journal_pages_backwards(self, store: Store) -> None:
        entries = [add_entry(store, "b1", 10.0) for _ in range(4)]
        other = add_entry(store, "b1", 10.0, OTHER)
        with store.reading() as session:
            assert [e.id for e in queries.journal(session, limit=2)] == [other, entries[3]]
            assert [e.id for e in queries.journal(session, ENGINE, limit=2)] == [entries[3], entries[2]]
            assert [e.id for e in queries.journal(session, ENGINE, before=entries[2])] == [
                entries[1],
                entries[0],
            ]


class TestForget:
    def test_old_campaigns_go_with_all_that_hangs_on_them(self, store: Store) -> None:
        add_campaign(store, ended=200.0)
        young, running = add_campaign(store, ended=900.0), add_campaign(store, ended=None)
        assert forget(store, before=500.0) == Forgotten(campaigns=1, journal_entries=0)
        with store.reading() as session:
            assert [c.id for c in queries.campaigns(session)] == [running, young]
            for column in (Trial.campaign_id, Window.campaign_id, Pair.campaign_id, Decision.campaign_id):
                assert set(session.scalars(select(column))) == {young, running}

    def test_the_campaign_behind_what_is_promoted_stays(self, store: Store) -> None:
        number = add_campaign(store, ended=200.0)
        with store.session() as session:
            session.add(
                Promoted(engine=ENGINE, launch={}, ceilings={}, values={}, campaign_id=number, time=200.0)
            )
        assert forget(store, before=500.0).campaigns == 0

    def test_a_promotion_without_a_campaign_protects_none(self, store: Store) -> None:
        add_campaign(store, ended=200.0)
        with store.session() as session:
            session.add(
                Promoted(engine=ENGINE, launch={}, ceilings={}, values={}, campaign_id=None, time=1.0)
            )
        assert forget(store, before=500.0).campaigns == 1

    def test_closed_entries_of_earlier_boots_go_and_open_ones_stay(self, store: Store) -> None:
        add_launch(store, "b1", 1.0)
        add_launch(store, "b2", 50.0)
        add_entry(store, "b1", 10.0)
        unfinished, young, standing = (
            add_entry(store, "b1", None),
            add_entry(store, "b1", 900.0),
            add_entry(store, "b2", 60.0),
        )
        assert forget(store, before=500.0).journal_entries == 1
        with store.reading() as session:
            assert [e.id for e in queries.journal(session)] == [standing, young, unfinished]
            assert [launch.boot_id for launch in session.query(Launch)] == ["b2"]

    @pytest.mark.parametrize("lane", ["host", "cold"])
    def test_a_change_that_stands_beyond_the_engines_boots_keeps_its_undo_and_its_campaign(
        self, store: Store, lane: str
    ) -> None:
        add_launch(store, "b1", 1.0)
        add_launch(store, "b2", 50.0)
        campaign = add_campaign(store)
        standing = add_entry(store, "n1", 10.0, kind="promotion", lane=lane, campaign_id=campaign)
        taken_back = add_entry(store, "n1", 20.0, lane=lane)
        add_entry(store, "n1", 30.0, kind="rollback", lane=lane, undoes=[taken_back])
        add_entry(store, "n1", 40.0, kind="trial", lane=lane)
        assert forget(store, before=500.0) == Forgotten(campaigns=0, journal_entries=3)
        with store.reading() as session:
            assert [e.id for e in queries.journal(session)] == [standing]

    def test_each_engine_keeps_its_newest_boot(self, store: Store) -> None:
        add_launch(store, "b1", 1.0)
        add_launch(store, "b9", 2.0, OTHER)
        forget(store, before=500.0)
        with store.reading() as session:
            assert {launch.boot_id for launch in session.query(Launch)} == {"b1", "b9"}

    def test_a_forgotten_number_is_not_given_again(self, store: Store) -> None:
        number, entry = add_campaign(store), add_entry(store, "b1", 10.0)
        forget(store, before=500.0)
        assert add_campaign(store) > number
        assert add_entry(store, "b1", 10.0) > entry
