"""Forgetting walks of playbooks."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from store.alert_models import PlaybookRun, RunAct, RunEvent


def forget_runs(session: Session, before: float) -> int:
    """Delete runs that ended before a Unix time; how many those were.

    Stays: a run that was skipped or ended, but whose cool-down had not ended by then, and one with an act that could
    not be put back, which somebody may still have to do by hand.
    """
    old = [
        run
        for run in session.scalars(select(PlaybookRun).where(PlaybookRun.ended < before))
        if run.ended is not None and run.ended + float(run.memory.get("rest_seconds", 0.0)) < before
    ]
    standing = {
        act.run_id
        for act in session.scalars(select(RunAct).where(RunAct.state.in_(("intended", "done", "failed"))))
        if act.plan.get("undo") is not None
    }
    gone = [run.id for run in old if run.id not in standing]
    for begun in range(0, len(gone), _AT_ONCE):
        some = gone[begun : begun + _AT_ONCE]
        for table in (RunEvent, RunAct):
            session.execute(delete(table).where(table.run_id.in_(some)))
        session.execute(delete(PlaybookRun).where(PlaybookRun.id.in_(some)))
    return len(gone)


_AT_ONCE = 500
"""SQLite takes so many values in one statement on every system."""
