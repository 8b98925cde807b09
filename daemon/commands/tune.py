"""`trimtab tune`: one campaign in the foreground."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from daemon import log
from daemon.client import running
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, remark, text
from daemon.commands.plan import print_plan
from daemon.commands.results import print_report
from daemon.config import Config
from daemon.errors import BAD, USAGE, UserError
from daemon.foreground import Display, through_daemon
from web.body import Refused

ENDED_WELL = ("promoted", "kept", "inconclusive", "too_thin")


def tune(
    mode: Annotated[
        Literal["advise", "act"] | None,
        typer.Option("--mode", help="advise asks before it acts, act does not."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be tried; change nothing.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.1, max=10080, help="Length; else tune.minutes.")
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(
            "--restarts", min=0, max=20, help="Restarts to spend: 0, or 3 and more; else tune.restarts."
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one campaign on the engine's live traffic, and print its report."""
    settings = configured(config)
    if dry_run:
        _dry_run(settings, minutes, restarts, as_json)
        return
    chosen = _mode(settings, mode)
    try:
        settings.tune.outer(settings.engine.restart, restarts)
    except ValueError as error:
        raise UserError(str(error), USAGE) from error
    client = running(settings)
    with _display() as display:
        try:
            if client is not None:
                report = through_daemon(client, chosen, minutes, display, _ask, restarts)
            else:
                # Here and not above: the tuner's libraries take a second to load, for which others need not wait.
                from daemon.alone import alone

                log.to_stderr(logging.ERROR)
                report = asyncio.run(alone(settings, chosen, minutes, display, _ask, restarts))
        except Refused as error:
            raise UserError(str(error), BAD) from error
        except KeyboardInterrupt:
            if client is not None:
                remark("the campaign goes on in the daemon; `trimtab pause` stops it")
            raise
    if as_json:
        print_json(report)
    else:
        print_report(report.get("campaign"), report)
    if report.get("decision") not in ENDED_WELL:
        raise typer.Exit(BAD)


def _mode(settings: Config, given: Literal["advise", "act"] | None) -> Literal["advise", "act"]:
    if given is not None:
        return given
    if settings.mode == "observe":
        raise UserError("mode observe changes nothing: add --mode advise or --mode act", USAGE)
    return settings.mode


def _ask(question: str) -> bool:
    if not sys.stdin.isatty():
        remark(f"declined, as nobody is here to ask: {question}")
        return False
    return typer.confirm(question, err=True)


def _dry_run(settings: Config, minutes: float | None, restarts: int | None, as_json: bool) -> None:
    from daemon.campaign_plan import campaign_plan

    try:
        plan = asyncio.run(campaign_plan(settings, minutes, restarts))
    except ValueError as error:
        raise UserError(str(error), USAGE) from error
    if as_json:
        print_json(plan)
    else:
        print_plan(plan)
    if not plan["scheduler_known"]:
        remark(f"the scheduler {plan['scheduler']} is not a build that is known: a campaign would be refused")
    nothing = not (plan["search"] or plan["host_knobs"])
    if nothing or not plan["scheduler_known"] or plan["stopped"]:
        raise typer.Exit(BAD)


@contextmanager
def _display() -> Iterator[Display]:
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines()
        return
    with Live(console=console, refresh_per_second=2, transient=True) as shown:
        yield _Board(shown)


class _Board:
    """A small table on the terminal, redrawn."""

    def __init__(self, shown: Live) -> None:
        self._shown = shown

    def show(self, status: dict[str, Any] | None, live: dict[str, Any]) -> None:
        """Redraw."""
        table = Table.grid(padding=(0, 2))
        for label, value in _facts(status, live):
            table.add_row(label, value)
        self._shown.update(table)


class _Lines:
    """One line on stderr at each change of phase."""

    def __init__(self) -> None:
        self._last: tuple[Any, Any] | None = None

    def show(self, status: dict[str, Any] | None, live: dict[str, Any]) -> None:
        """Print if something changed."""
        now = (None, None) if status is None else (status.get("phase"), status.get("trials"))
        if now != self._last:
            self._last = now
            remark(", ".join(f"{label} {value}" for label, value in _facts(status, live)))


def _facts(status: dict[str, Any] | None, live: dict[str, Any]) -> list[tuple[str, str]]:
    status = status or {}
    queue = live.get("queue") or {}
    facts = [
        ("phase", text(status.get("phase"))),
        ("trials", text(status.get("trials"))),
        ("running", text(queue.get("running"))),
        ("waiting", text(queue.get("waiting"))),
    ]
    started, now = status.get("started"), live.get("now")
    if started is not None and now is not None:
        facts.insert(1, ("minutes", f"{(now - started) / 60:.1f} of {text(status.get('minutes'))}"))
    in_force = status.get("in_force") or {}
    if in_force:
        who = "incumbent" if in_force.get("trial") is None else f"trial {in_force['trial']}"
        facts.append(("in force", f"{who} {text(in_force.get('values'))}"))
    for notice in live.get("notices") or ():
        if notice["level"] == "error":
            facts.append(("notice", str(notice["text"])))
    return facts
