"""What the webhook brought is kept once for each fingerprint and start, and told once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from rules.alertmanager.webhook import Receipt, receive, recent
from store import Store, StoreError, open_store
from store.alert_models import ReceivedAlert
from store.retention import MOST_RECEIVED, forget, forget_received
from tests.rules.alertmanager.posts import a_post, an_item

NOW = 1_796_026_000.0
ENGINE = "http://tuned:8000"
OTHER = "http://other:8000"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/trimtab.db")
    yield opened
    opened.close()


def told(receipt: Receipt) -> tuple[list[str], list[str]]:
    return (
        [dict(alert.labels)["alertname"] for alert in receipt.firing],
        [dict(alert.labels)["alertname"] for alert in receipt.resolved],
    )


def rows(store: Store) -> int:
    with store.reading() as session:
        return session.scalar(select(func.count()).select_from(ReceivedAlert)) or 0


def test_an_alert_is_new_once_however_often_it_is_repeated(store: Store) -> None:
    post = a_post(an_item("A"), an_item("B"))
    assert told(receive(post, store, ENGINE, NOW)) == (["A", "B"], [])
    for later in (1, 2, 3):
        again = receive(post, store, ENGINE, NOW + later)
        assert told(again) == ([], [])
        assert (again.taken, again.news) == (2, False)
    assert rows(store) == 2


def test_the_same_alert_twice_in_one_post_is_one(store: Store) -> None:
    assert told(receive(a_post(an_item("A"), an_item("A")), store, ENGINE, NOW)) == (["A"], [])


def test_another_start_is_another_alert(store: Store) -> None:
    receive(a_post(an_item("A")), store, ENGINE, NOW)
    again = receive(a_post(an_item("A", start="2026-11-30T08:30:00Z")), store, ENGINE, NOW + 1)
    assert told(again) == (["A"], [])


def test_its_end_is_told_once_and_stored(store: Store) -> None:
    receive(a_post(an_item("A")), store, ENGINE, NOW)
    over = a_post(an_item("A", status="resolved"), status="resolved")
    assert told(receive(over, store, ENGINE, NOW + 1)) == ([], ["A"])
    assert told(receive(over, store, ENGINE, NOW + 2)) == ([], [])
    with store.reading() as session:
        (row,) = session.scalars(select(ReceivedAlert))
    assert (row.status, row.received, row.body["endsAt"]) == ("resolved", NOW + 1, "2026-11-30T09:00:00Z")


def test_one_that_fires_again_with_its_old_start_is_not_new(store: Store) -> None:
    for status in ("firing", "resolved"):
        receive(a_post(an_item("A", status=status)), store, ENGINE, NOW)
    assert told(receive(a_post(an_item("A")), store, ENGINE, NOW + 1)) == ([], [])
    with store.reading() as session:
        assert session.scalars(select(ReceivedAlert.status)).all() == ["firing"]


def test_what_was_stored_is_known_to_the_next_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/trimtab.db"
    for expected in (["A"], []):
        opened = open_store(url)
        assert told(receive(a_post(an_item("A")), opened, ENGINE, NOW)) == (expected, [])
        opened.close()


def test_a_store_that_cannot_be_written_is_no_success(store: Store) -> None:
    with store.session(), pytest.raises(StoreError):
        receive(a_post(an_item("A")), store, ENGINE, NOW)
    assert rows(store) == 0


def test_only_the_newest_are_kept(store: Store) -> None:
    for n in range(12):
        receive(a_post(an_item(f"A{n}")), store, ENGINE, NOW + n)
    with store.session() as session:
        assert forget_received(session, ENGINE, 5) == 7
        assert forget_received(session, ENGINE, 5) == 0
    with store.reading() as session:
        assert session.scalar(select(func.min(ReceivedAlert.received))) == NOW + 7


def test_an_alert_is_new_to_each_engine_that_shares_the_store(store: Store) -> None:
    post = a_post(an_item("A"))
    for engine in (ENGINE, OTHER):
        assert told(receive(post, store, engine, NOW)) == (["A"], [])
    over = a_post(an_item("A", status="resolved"), status="resolved")
    assert told(receive(over, store, OTHER, NOW + 1)) == ([], ["A"])
    assert [len(recent(store, engine, NOW)) for engine in (ENGINE, OTHER)] == [1, 0]


def test_a_flood_for_one_engine_leaves_the_others_alone(store: Store) -> None:
    receive(a_post(an_item("A")), store, OTHER, NOW)
    for n in range(3):
        receive(a_post(an_item(f"A{n}")), store, ENGINE, NOW + 1 + n)
    with store.session() as session:
        assert forget_received(session, ENGINE, 1) == 2
    assert len(recent(store, OTHER, NOW)) == 1


def test_the_retention_forgets_by_number_and_not_by_age(store: Store) -> None:
    receive(a_post(an_item("A")), store, ENGINE, NOW)
    forget(store, before=NOW + 1e6)
    assert rows(store) == 1
    assert MOST_RECEIVED == 10_000


def test_a_thousand_in_one_post_are_one_transaction(store: Store) -> None:
    items = [an_item(f"A{n}") for n in range(900)]
    assert len(receive(a_post(*items), store, ENGINE, NOW).firing) == 900
    assert receive(a_post(*items), store, ENGINE, NOW).firing == ()
