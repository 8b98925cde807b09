"""`trimtab trials`, `report`, `history`: what was tried, decided and changed, out of the store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from sqlalchemy.orm import Session

from change.host_steps import values_before
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import percent, print_json, print_table, text, when
from daemon.config import Config
from daemon.errors import BAD, UserError
from store import open_store
from store.models import Base, Campaign, JournalEntry
from store.queries import journal, newest_campaign, whole_campaign

CampaignArgument = Annotated[
    int | None, typer.Argument(metavar="[CAMPAIGN]", min=1, help="Number of the campaign; else the newest.")
]


def trials(
    campaign: CampaignArgument = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """List what a campaign tried, with the effect of each trial."""
    with _reading(configured(config)) as (session, engine):
        found = _campaign(session, engine, campaign)
        rows = [_plain(trial) for trial in found.trials]
    if as_json:
        print_json({"campaign": found.id, "decision": found.decision, "trials": rows})
        return
    print(f"campaign {found.id}, {when(found.started)}: {found.decision or found.phase}")
    print_table(
        ("trial", "from", "values", "state", "effect", "interval", "pairs", "why"),
        [
            (
                row["number"],
                row["source"],
                row["values"],
                row["state"],
                *_effect(row["effect"]),
                row["reason"] or "",
            )
            for row in rows
        ],
        "nothing was tried",
    )


def report(
    campaign: CampaignArgument = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Print what a campaign decided and why."""
    with _reading(configured(config)) as (session, engine):
        found = _campaign(session, engine, campaign)
        whole = whole_campaign(session, found.id)
    if found.report is None:
        raise UserError(f"campaign {found.id} is in phase {found.phase}: it has no report yet", BAD)
    if as_json:
        print_json({"campaign": found.id} | found.report)
        return
    print_report(found.id, found.report)
    if whole is not None:
        print()
        rows = [(when(d.time), d.kind, "" if d.trial is None else d.trial, d.text) for d in whole.decisions]
        print_table(("time", "decision", "trial", "because"), rows, "no decision was written down")


def history(
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="How many entries.")] = 20,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the changes made to the engine, newest first, with their undo."""
    with _reading(configured(config)) as (session, engine):
        rows = [_entry(entry) for entry in journal(session, engine, number)]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("entry", "time", "kind", "by", "change", "undo", "state", "outcome", "why"),
        [
            (
                row["id"],
                when(row["intended"]),
                row["kind"],
                row["actor"],
                row["change"],
                row["undo"],
                row["state"],
                row["outcome"],
                row["reason"] or "",
            )
            for row in rows
        ],
        "nothing was changed yet",
    )


def print_report(number: int | None, report: Mapping[str, Any]) -> None:
    """A report for people; every figure that is there, and nothing that is not."""
    objective = report.get("objective") or {}
    effect = report.get("effect") or {}
    title = "" if number is None else f"campaign {number}: "
    print(f"{title}{report.get('decision')}")
    winner = report.get("winner")
    lines: list[tuple[str, Any]] = [
        ("objective", _objective(objective) if objective else None),
        ("incumbent", report.get("incumbent")),
        ("winner", winner if winner is not None else "none: the incumbent stays"),
        ("effective", report.get("effective")),
    ]
    if effect:
        low, high = percent(effect.get("low")), percent(effect.get("high"))
        lines.append(("effect", f"{percent(effect.get('median'))} ({low} to {high}), better is positive"))
    if report.get("detectable_effect") is not None:
        lines.append(("detectable effect", percent(report["detectable_effect"])))
    for key in (
        "other_metrics",
        "trials",
        "blocks",
        "pairs",
        "restarts",
        "failed_requests",
        "slo_violation_seconds",
    ):
        lines.append((key.replace("_", " "), report.get(key)))
    for key in ("switch_seconds", "traffic", "truth"):
        lines.append((key.replace("_", " "), report.get(key)))
    if report.get("skipped_priors"):
        lines.append(("skipped priors", "; ".join(text(prior) for prior in report["skipped_priors"])))
    for label, value in lines:
        if value is None or value == {}:
            continue
        print(f"  {label + ':':<22} {text(len(value) if isinstance(value, list) else value)}")
    for reason in report.get("reasons") or ():
        print(f"  because {reason}")


@contextmanager
def _reading(settings: Config) -> Iterator[tuple[Session, str]]:
    store = open_store(settings.store_url)
    try:
        with store.reading() as session:
            yield session, settings.engine.url
    finally:
        store.close()


def _campaign(session: Session, engine: str, number: int | None) -> Campaign:
    if number is None:
        newest = newest_campaign(session, engine)
        if newest is None:
            raise UserError(
                f"no campaign was run on {engine} yet: begin one with `trimtab tune --mode advise`", BAD
            )
        return newest
    whole = whole_campaign(session, number)
    if whole is None:
        raise UserError(f"there is no campaign {number}: `trimtab trials` shows the newest", BAD)
    return whole.campaign


def _plain(row: Base) -> dict[str, Any]:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def _entry(row: JournalEntry) -> dict[str, Any]:
    """An entry; of a host's undo, which has a word for every thread and page, only what was there."""
    undo = values_before(row.undo) if row.lane == "host" else row.undo
    return _plain(row) | {"undo": undo}


def _effect(effect: Mapping[str, Any] | None) -> tuple[str, str, Any]:
    if not effect:
        return "-", "-", None
    low, high = effect.get("low"), effect.get("high")
    known = all(isinstance(x, int | float) and math.isfinite(x) for x in (low, high))
    return (
        percent(effect.get("median")),
        f"{percent(low)} to {percent(high)}" if known else "-",
        effect.get("pairs"),
    )


def _objective(objective: Mapping[str, Any]) -> str:
    name = objective.get("name", "unknown")
    quantile = objective.get("quantile")
    words = [str(name)]
    if quantile is not None and name in ("ttft", "itl", "e2e"):
        words.append(f"p{quantile * 100:.0f}")
    if objective.get("unit"):
        words.append(f"in {objective['unit']}")
    if objective.get("direction"):
        words.append(f"({objective['direction']})")
    return " ".join(words)
