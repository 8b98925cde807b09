"""`trimtab playbook`: the playbooks there are, and walks of them."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Annotated, Any

import typer
import yaml

from daemon.acting.playbooks import configured_playbooks, described
from daemon.alerting.assembly import configured_rules
from daemon.client import DaemonClient, running
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, print_table, remark, text, when
from daemon.config import Config
from daemon.errors import BAD, USAGE, UserError
from rules.playbook.messages import ENDED
from store import open_store
from web.body import NotFound, Refused
from web.run_shapes import RunDetail

app = typer.Typer(help="List playbooks, show one, walk one.")

BEAT_SECONDS = 1.0
ENDED_WELL = frozenset({"succeeded"})
WALKED = frozenset({"succeeded", "skipped", "inconclusive"})
"""How a dry run may end that did what it was asked to: to walk, and to say what it would have done."""

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A playbook; see `trimtab playbook list`.")]


@app.command("list")
def list_(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the playbooks of the configuration."""
    settings = configured(config)
    found = _playbooks(settings)
    if as_json:
        print_json([one | {"disabled": one["name"] in settings.playbooks.disabled} for one in found])
        return
    print_table(
        ("name", "about", "target", "may change", "title"),
        [
            (
                one["name"],
                "disabled" if one["name"] in settings.playbooks.disabled else f"{len(one['steps'])} steps",
                one["target"],
                "yes" if one["changes"] else "no",
                one["title"],
            )
            for one in found
        ],
        "no playbooks",
    )


@app.command()
def show(name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show one playbook with its steps."""
    found = {one["name"]: one for one in _playbooks(configured(config))}
    if name not in found:
        raise _unknown(name, found)
    if as_json:
        print_json(found[name])
    else:
        print(yaml.safe_dump(found[name], sort_keys=False, allow_unicode=True, width=110), end="")


@app.command()
def run(
    name: NameArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look and plan, change nothing; it uses the cool-down up.")
    ] = False,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A variable, as npu=3.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Walk a playbook now, through the running daemon; without one only as a dry run, on fresh readings."""
    settings = configured(config)
    labels = dict(_pair(one) for one in label or ())
    client = running(settings)
    progress = _Progress()
    if client is not None:
        ended = _through_daemon(client, name, labels, dry_run, progress, may_ask=not as_json)
    elif dry_run:
        ended = _alone(settings, name, labels, progress)
    else:
        raise UserError(
            "no daemon looks after this engine: start one (`trimtab run`), or add --dry-run to see what it would do",
            BAD,
        )
    if as_json:
        print_json(ended)
    else:
        print(f"run {ended['id']} ended {ended['state']}: {text(ended.get('reason'))}")
        if ended.get("cause"):
            print(f"cause: {ended['cause']}")
    walked = ended.get("started") is not None
    if ended["state"] not in (WALKED if dry_run and walked else ENDED_WELL):
        raise typer.Exit(BAD)


def _through_daemon(
    client: DaemonClient,
    name: str,
    labels: dict[str, str],
    dry_run: bool,
    progress: _Progress,
    *,
    may_ask: bool,
) -> dict[str, Any]:
    begun = client.post(f"playbooks/{name}/run", {"dry_run": dry_run, "labels": labels})
    number = begun["run"]
    asked: set[str] = set()
    try:
        while True:
            now: dict[str, Any] = client.get(f"runs/{number}")
            progress.show(now)
            if now["state"] in ENDED:
                return now
            if now["state"] == "waiting_approval" and may_ask:
                _answer(client, number, asked)
            time.sleep(BEAT_SECONDS)
    except KeyboardInterrupt:
        remark(f"run {number} goes on in the daemon; `trimtab pause` stops it")
        raise


def _answer(client: DaemonClient, number: int, asked: set[str]) -> None:
    """Ask who sits here; where nobody does, the answer is the page's or the API's to give."""
    for one in client.get("approvals"):
        id = str(one["id"])
        if not id.startswith(f"run-{number}-") or id in asked:
            continue
        asked.add(id)
        if sys.stdin.isatty():
            answer = "approve" if typer.confirm(str(one["text"]), err=True) else "decline"
            client.post(f"approvals/{id}", {"answer": answer})
        else:
            remark(f"{id} waits for an answer on the page: {one['text']}")


def _alone(settings: Config, name: str, labels: dict[str, str], progress: _Progress) -> dict[str, Any]:
    # Here and not above: what reads the sources takes a while to load, for which a list need not wait.
    from daemon.acting.dry_walk import dry_walk

    groups = configured_rules(settings)
    store = open_store(settings.store_url)
    try:
        ended = asyncio.run(
            dry_walk(
                settings,
                store,
                groups,
                name,
                labels,
                lambda seen: progress.show(seen.model_dump(mode="json")),
            )
        )
    except NotFound as error:
        raise UserError(str(error), USAGE) from error
    except Refused as error:
        raise UserError(str(error), BAD) from error
    finally:
        store.close()
    return _told(ended)


def _told(ended: RunDetail) -> dict[str, Any]:
    values: dict[str, Any] = ended.model_dump(mode="json")
    return values


class _Progress:
    """One line on stderr for each line of the audit."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, run: dict[str, Any]) -> None:
        """Say what is new."""
        events = run.get("events") or []
        for event in events[self._shown :]:
            step = f"{event['step']}: " if event.get("step") else ""
            remark(f"{when(event['time'])}  {step}{event['kind']}: {event['text']}{_figures(event)}")
        self._shown = len(events)


def _figures(event: dict[str, Any]) -> str:
    figures = {
        key: value for key, value in (event.get("figures") or {}).items() if isinstance(value, int | float)
    }
    return f" ({text(figures)})" if figures else ""


def _playbooks(settings: Config) -> list[dict[str, Any]]:
    return [described(one) for one in configured_playbooks(settings, configured_rules(settings)).values()]


def _unknown(name: str, known: dict[str, Any]) -> UserError:
    return UserError(f"there is no playbook {name!r}: known are {', '.join(sorted(known)) or 'none'}", USAGE)


def _pair(given: str) -> tuple[str, str]:
    name, sign, value = given.partition("=")
    if not sign or not name.isidentifier():
        raise UserError(f"--label {given}: expected a name and a value, as in npu=3", USAGE)
    return name, value
