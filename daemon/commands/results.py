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
from store.queries import inner_campaigns, journal, newest_campaign, whole_campaign
from tuner.outer.memory import changed

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
        inside = [one.id for one in inner_campaigns(session, found.id)]
    if as_json:
        told = {"campaign": found.id, "lane": found.lane, "parent": found.parent, "decision": found.decision}
        print_json(told | {"inner": inside, "trials": rows})
        return
    where = "" if found.parent is None else f", inside campaign {found.parent}"
    print(f"campaign {found.id}, {found.lane}{where}, {when(found.started)}: {found.decision or found.phase}")
    incumbent = found.settings.get("cold") or {}
    print_table(
        ("trial", "from", "values", "state", "effect", "interval", "pairs", "why"),
        [
            (
                row["number"],
                row["source"],
                changed(row["values"], incumbent) if incumbent else row["values"],
                row["state"],
                *_effect(row["effect"]),
                row["reason"] or "",
            )
            for row in rows
        ],
        "nothing was tried",
    )
    if found.lane == "cold":
        print("effects of start-up settings are not error-controlled")
    if inside:
        print(f"hot campaigns inside it: {', '.join(map(str, inside))}")


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
        ("entry", "time", "lane", "kind", "by", "change", "undo", "state", "outcome", "why"),
        [
            (
                row["id"],
                when(row["intended"]),
                row["lane"],
                row["kind"],
                row["actor"],
                _settings(row["lane"], row["change"]),
                _settings(row["lane"], row["undo"]),
                row["state"],
                row["outcome"],
                row["reason"] or "",
            )
            for row in rows
        ],
        "nothing was changed yet",
    )


def _settings(lane: str, part: Mapping[str, Any]) -> Any:
    """What a person wants to see of a change: of a restart its settings, without the whole command."""
    return part.get("settings", part) if lane == "cold" else part


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
        if key != "restarts" or not report.get("cold"):
            lines.append((key.replace("_", " "), report.get(key)))
    for key in ("switch_seconds", "traffic", "truth"):
        lines.append((key.replace("_", " "), report.get(key)))
    lines += _cold_lines(report.get("cold") or {})
    if report.get("skipped_priors"):
        lines.append(("skipped priors", "; ".join(text(prior) for prior in report["skipped_priors"])))
    for label, value in lines:
        if value is None or value == {}:
            continue
        print(
            f"  {label + ':' if label else '':<22} {text(len(value) if isinstance(value, list) else value)}"
        )
    for reason in report.get("reasons") or ():
        print(f"  because {reason}")


def _cold_lines(cold: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The part of a campaign that restarted the engine, in words."""
    if not cold:
        return []
    incumbent, winner = cold.get("incumbent") or {}, cold.get("winner")
    lines: list[tuple[str, Any]] = [("start-up settings", incumbent)]
    if winner is None:
        lines.append(("", f"they stay ({cold.get('decision')})"))
    else:
        lines.append(("moved to", f"{text(changed(winner, incumbent))}, {cold.get('label')}"))
    if effect := cold.get("effect"):
        low, high = percent(effect.get("low")), percent(effect.get("high"))
        spread = percent(effect.get("between_restart_sd")).lstrip("+")
        told = f"{percent(effect.get('median'))} ({low} to {high}) over {effect.get('alternations')} alternations"
        lines.append(("their effect", f"{told}; restarts of one config differ by {spread}"))
    lost, own = cold.get("lost_minutes"), cold.get("own_minutes")
    if lost is not None:
        of = f"of {cold.get('restarts_allowed')}"
        lines.append(("restarts spent", f"{cold.get('restarts')} {of}, {lost:.1f} minutes of lost capacity"))
    if own is not None:
        lines.append(
            ("", f"of them {own:.1f} minutes are Trimtab's own, beside the engine's drain, end and load")
        )
    for trial in cold.get("trials") or ():
        lines.append((f"cold trial {trial['number']}", _cold_trial(trial, incumbent)))
    return lines


def _cold_trial(trial: Mapping[str, Any], incumbent: Mapping[str, Any]) -> str:
    words = [text(changed(trial["requested"], incumbent)), str(trial["state"])]
    if effect := trial.get("effect"):
        words.append(percent(effect.get("median")))
    if trial.get("hot_decision"):
        words.append(f"hot values inside it {trial['hot_decision']}")
    return ", ".join(words) + (f": {trial['reason']}" if trial.get("reason") else "")


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
