"""Which walks of playbooks are forgotten, and which stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import func, select

from store import Store, open_store
from store.alert_models import PlaybookRun, RunAct, RunEvent
from store.retention import forget


@pytest.fixture
def store() -> Iterator[Store]:
    opened = open_store("sqlite:///:memory:")
    yield opened
    opened.close()


def run(store: Store, ended: float | None, state: str = "undone", rest: float = 0.0) -> None:
    with store.session() as session:
        row = PlaybookRun(
            engine="e",
            playbook="hot",
            source="rule",
            fingerprint="f",
            alert_started=0.0,
            labels={},
            target="engine",
            dry_run=False,
            state="failed",
            queued=0.0,
            ended=ended,
            memory={"rest_seconds": rest},
        )
        session.add(row)
        session.flush()
        session.add(RunEvent(run_id=row.id, time=0.0, step=None, kind="state", text="x", figures={}))
        act = {"kind": "set_knobs", "arguments": {}, "timeout_seconds": 60}
        plan = {"text": "x", "blast": "engine", "reversible": True, "undo": {}}
        session.add(RunAct(run_id=row.id, step="a", action=act, plan=plan, state=state, intended=0.0))


def count(store: Store, table: type[Any]) -> int:
    with store.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_an_old_run_goes_with_its_lines_and_acts(store: Store) -> None:
    run(store, ended=100.0)
    assert forget(store, before=500.0).runs == 1
    assert [count(store, table) for table in (PlaybookRun, RunEvent, RunAct)] == [0, 0, 0]


@pytest.mark.parametrize(
    "stays",
    [{"ended": None}, {"ended": 600.0}, {"ended": 100.0, "rest": 500.0}, {"ended": 100.0, "state": "done"}],
    ids=["walks", "is new", "its cool-down runs", "could not be put back"],
)
def test_what_may_still_matter_stays(store: Store, stays: dict[str, Any]) -> None:
    run(store, **stays)
    assert forget(store, before=500.0).runs == 0
    assert count(store, RunAct) == 1


def test_many_at_once(store: Store) -> None:
    for _ in range(3):
        run(store, ended=100.0)
    run(store, ended=600.0)
    assert forget(store, before=500.0).runs == 3
    assert count(store, PlaybookRun) == 1
