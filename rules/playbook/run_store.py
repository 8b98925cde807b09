"""Runs in the store: what stood, what stands, what an act's undo is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from collectors.sample import Labels
from rules.actions import Action, Outcome, Plan
from rules.playbook.ledger import ActState, Ledger, StandingAct
from rules.playbook.messages import ENDED, Note, RunState, Trigger
from rules.playbook.rails import HOUR, LONGEST_REST, Past
from store import Store, StoreError
from store.alert_models import PlaybookRun, RunAct, RunEvent

MAX_TEXT = 4000


@dataclass(slots=True)
class Kept:
    """A run and what the store knows of it besides its ledger."""

    ledger: Ledger
    trigger: Trigger
    queued: float
    dry: bool
    memory: dict[str, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    """Lines that are not written yet."""


class RunStore:
    """The runs of one engine. Every method raises `StoreError` when the store cannot be read or written."""

    def __init__(self, store: Store, engine: str) -> None:
        self._store = store
        self._engine = engine

    def known(self, triggers: Sequence[Trigger]) -> set[tuple[str, str, float]]:
        """Which of them have a run already: playbook, fingerprint and start of those alerts."""
        found: set[tuple[str, str, float]] = set()
        with self._store.reading() as session:
            for trigger in triggers:
                key = (trigger.playbook, trigger.fingerprint, trigger.alert_started)
                query = (
                    select(PlaybookRun.id)
                    .where(
                        PlaybookRun.engine == self._engine,
                        PlaybookRun.playbook == key[0],
                        PlaybookRun.fingerprint == key[1],
                        PlaybookRun.alert_started == key[2],
                    )
                    .limit(1)
                )
                if session.scalar(query) is not None:
                    found.add(key)
        return found

    def add(self, runs: Sequence[Kept]) -> None:
        """Write new runs down, and give each its number."""
        with self._store.session() as session:
            for run in runs:
                row = PlaybookRun(
                    engine=self._engine,
                    playbook=run.trigger.playbook,
                    source=run.trigger.source,
                    fingerprint=run.trigger.fingerprint,
                    alert_started=run.trigger.alert_started,
                    labels=dict(run.trigger.labels),
                    target=run.ledger.target,
                    queued=run.queued,
                    **_standing(run),
                )
                session.add(row)
                session.flush()
                run.ledger.run_id = row.id

    def save(self, runs: Iterable[Kept]) -> None:
        """Write down where runs stand, what became of their acts, and what they said; all of it or nothing."""
        runs = list(runs)
        with self._store.session() as session:
            for run in runs:
                self._save(session, run)
        for run in runs:
            run.notes.clear()

    def intend(self, run: Kept, step: str, action: Action, plan: Plan, now: float) -> int:
        """Write an act with its undo down, and all that the run said before; the act's number comes back."""
        planned = {"text": plan.text, "blast": plan.blast, "reversible": plan.reversible, "undo": plan.undo}
        asked = {
            "kind": action.kind,
            "arguments": action.arguments,
            "timeout_seconds": action.timeout_seconds,
            "keep": action.keep,
        }
        with self._store.session() as session:
            self._save(session, run)
            row = RunAct(
                run_id=run.ledger.run_id,
                step=step,
                action=_whole(asked),
                plan=_whole(planned),
                state="intended",
                intended=now,
                ended=None,
                outcome=None,
            )
            session.add(row)
            session.flush()
            number = row.id
        run.notes.clear()
        return number

    def past(self, now: float) -> list[Past]:
        """Runs that walked and whose rest may not be over."""
        query = select(PlaybookRun).where(
            PlaybookRun.engine == self._engine,
            PlaybookRun.started.is_not(None),
            PlaybookRun.ended > now - 2 * LONGEST_REST,
        )
        with self._store.reading() as session:
            return [
                Past(
                    row.playbook,
                    row.target,
                    cast(float, row.ended),
                    float(row.memory.get("rest_seconds", 0.0)),
                    float(row.memory.get("target_rest_seconds", 0.0)),
                    frozenset(row.memory.get("changed", ())),
                )
                for row in session.scalars(query)
            ]

    def acts(self, now: float) -> list[float]:
        """When actions were taken within the last hour; messages to people and refused ones do not count."""
        return [time for time, kind in self._taken(now) if kind != "notify"]

    def restarts(self, now: float) -> list[float]:
        """When the engine was restarted within the last hour."""
        return [time for time, kind in self._taken(now) if kind == "restart"]

    def unfinished(self) -> list[Kept]:
        """Runs that have not ended, in the order in which they were queued, with their acts."""
        query = (
            select(PlaybookRun)
            .where(PlaybookRun.engine == self._engine, PlaybookRun.state.not_in(sorted(ENDED)))
            .order_by(PlaybookRun.id)
        )
        with self._store.reading() as session:
            return [_kept(row, _acts(session, row.id)) for row in session.scalars(query).all()]

    def _taken(self, now: float) -> list[tuple[float, str]]:
        query = (
            select(RunAct)
            .join(PlaybookRun, PlaybookRun.id == RunAct.run_id)
            .where(
                PlaybookRun.engine == self._engine, RunAct.intended > now - HOUR, RunAct.state != "refused"
            )
        )
        with self._store.reading() as session:
            return [(row.intended, str(row.action["kind"])) for row in session.scalars(query)]

    def _save(self, session: Session, run: Kept) -> None:
        row = session.get_one(PlaybookRun, run.ledger.run_id)
        for name, value in _standing(run).items():
            setattr(row, name, value)
        for act in run.ledger.acts:
            stored = session.get_one(RunAct, act.act_id)
            stored.state, stored.ended = act.state, act.ended
            stored.outcome = None if act.outcome is None else _figures(asdict(act.outcome))
        for note in run.notes:
            session.add(
                RunEvent(
                    run_id=note.run_id,
                    time=note.time,
                    step=note.step,
                    kind=note.kind,
                    text=_text(note.text),
                    figures=_figures(note.figures),
                )
            )


def _standing(run: Kept) -> Mapping[str, Any]:
    ledger = run.ledger
    return {
        "dry_run": run.dry,
        "state": ledger.state,
        "step": ledger.at,
        "reason": None if ledger.reason is None else _text(ledger.reason),
        "cause": ledger.cause,
        "started": ledger.started,
        "ended": ledger.ended,
        "memory": {**run.memory, "calls": ledger.calls},
    }


def _kept(row: PlaybookRun, acts: list[StandingAct]) -> Kept:
    ledger = Ledger(
        row.id,
        row.playbook,
        row.target,
        cast(RunState, row.state),
        row.step,
        row.reason,
        row.cause,
        int(row.memory.get("calls", 0)),
        row.started,
        row.ended,
        acts,
    )
    trigger = Trigger(
        row.playbook,
        row.source,  # type: ignore[arg-type]
        _labels(row.labels),
        row.fingerprint,
        row.alert_started,
        float(row.memory.get("window_seconds", 0.0)),
        bool(row.memory.get("dry_asked", False)),
    )
    return Kept(ledger, trigger, row.queued, row.dry_run, dict(row.memory))


def _labels(stored: Mapping[str, Any]) -> Labels:
    return tuple(sorted((name, str(value)) for name, value in stored.items()))


def _acts(session: Session, run_id: int) -> list[StandingAct]:
    rows = session.scalars(select(RunAct).where(RunAct.run_id == run_id).order_by(RunAct.id))
    return [
        StandingAct(
            row.id,
            row.step,
            Action(**row.action),
            Plan(**row.plan),
            cast(ActState, row.state),
            row.ended,
            None if row.outcome is None else Outcome(**row.outcome),
        )
        for row in rows
    ]


def _whole(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON, or not at all: an undo that is not written down as it is would be none. Raises `StoreError`."""
    try:
        read: dict[str, Any] = json.loads(json.dumps(values, default=_mapping, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise StoreError(f"the plan cannot be written down: {error}") from error
    return read


def _figures(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON, what is none as text: an odd figure must not keep the line from being written."""
    read: dict[str, Any] = json.loads(json.dumps(dict(values), default=str))
    return read


def _mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _text(text: str) -> str:
    """Text that a file can hold: half a surrogate pair becomes a question mark."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()
