"""Runs as the store has them, in the shapes of the API."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.alert_models import PlaybookRun, RunAct, RunEvent
from web import run_shapes

MOST_EVENTS = 2000


def runs(session: Session, limit: int, before: int | None) -> list[run_shapes.Run]:
    """List runs, newest first, older than run `before`."""
    query = select(PlaybookRun).order_by(PlaybookRun.id.desc()).limit(limit)
    if before is not None:
        query = query.where(PlaybookRun.id < before)
    return [run_shapes.Run.model_validate(row) for row in session.scalars(query)]


def run(session: Session, id: int) -> run_shapes.RunDetail | None:
    """Read one run with its audit and its acts; of a very long audit the end."""
    row = session.get(PlaybookRun, id)
    if row is None:
        return None
    newest = select(RunEvent).where(RunEvent.run_id == id).order_by(RunEvent.id.desc()).limit(MOST_EVENTS)
    acts = select(RunAct).where(RunAct.run_id == id).order_by(RunAct.id)
    return run_shapes.RunDetail(
        **run_shapes.Run.model_validate(row).model_dump(),
        events=[run_shapes.Event.model_validate(event) for event in reversed(session.scalars(newest).all())],
        acts=[run_shapes.Act.model_validate(act) for act in session.scalars(acts)],
    )
