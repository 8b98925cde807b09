"""`trimtab rules`: look alert rules over, replay traces through them, write them for a Prometheus."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from collectors.metrics import METRICS
from daemon.acting.playbooks import configured_playbooks
from daemon.alerting.addressee import ENGINE_LABEL, engine_name
from daemon.alerting.assembly import read_rules
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, print_table, remark
from daemon.config import Config
from daemon.errors import BAD, USAGE, ConfigError, UserError
from rules import export as exporting
from rules.history_readings import without_a_past
from rules.rule import Rule, RuleError, RuleGroup
from rules.rule_fields import nearest
from rules.rule_tests import Judged, judge, read_tests

app = typer.Typer(help="Check alert rules, replay traces through them, write them for a Prometheus.")

_PARTS = ("_bucket", "_sum", "_count")
RuleFiles = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE...]",
        help="Rule files; else those of the configuration, with the ones that come with Trimtab.",
    ),
]


@app.command()
def check(files: RuleFiles = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the rules, with what is wrong with them; code 1 if anything is."""
    settings = configured(config)
    _must_exist(files or [])
    mistakes: list[str] = []
    remarks: list[str] = []
    groups: tuple[RuleGroup, ...] = ()
    try:
        groups = read_rules(settings, files or (), lambda one: remarks.append(str(one)))
    except RuleError as error:
        mistakes = str(error).splitlines()
    mistakes += [line for group in groups for rule in group.rules for line in _never(rule)]
    mistakes += _no_playbook(settings, groups)
    if as_json:
        listed = [_listed(group, rule) for group in groups for rule in group.rules]
        print_json({"rules": listed, "mistakes": mistakes, "remarks": remarks})
    else:
        print_table(
            ("rule", "severity", "for", "condition", "playbook", "where"),
            [
                (
                    rule.name,
                    rule.severity,
                    exporting.duration(rule.for_seconds),
                    _plain(" ".join(rule.expression.text.split())),
                    rule.playbook,
                    rule.source,
                )
                for group in groups
                for rule in group.rules
            ],
            "no rules" if not mistakes else "",
        )
        for line in (*remarks, *mistakes):
            remark(_plain(line))
    if mistakes:
        raise typer.Exit(BAD)


@app.command()
def test(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Test files as promtool takes them; one that names no rule_files is about the configured rules.",
        ),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay the traces of test files: when alerts fire and resolve, and what differs; code 1 if anything does."""
    settings = configured(config)
    _must_exist(files)
    try:
        judged = [judge(read_tests(path), lambda named: read_rules(settings, named)) for path in files]
    except RuleError as error:
        raise UserError(str(error), BAD) from error
    if as_json:
        print_json([_told(one) for one in judged])
    else:
        for one in judged:
            _show(one)
    if any(one.differences for one in judged):
        raise typer.Exit(BAD)


@app.command()
def export(files: RuleFiles = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print the rules as a rule file for Prometheus, of this engine's series alone.

    Playbook and description are annotations there.
    """
    settings = configured(config)
    _must_exist(files or [])
    try:
        groups = read_rules(settings, files or (), lambda one: remark(str(one)))
    except RuleError as error:
        raise UserError(str(error), BAD) from error
    of = (ENGINE_LABEL, engine_name(settings))
    if as_json:
        print_json(exporting.as_values(groups, of))
    else:
        print(exporting.export(groups, of), end="")


def _must_exist(files: Sequence[Path]) -> None:
    for path in files:
        if not path.is_file():
            raise UserError(f"{path}: no such file", USAGE)


def _never(rule: Rule) -> list[str]:
    """Names that no reading here has, or no past: what asks for them never holds, or with `absent` always."""
    known = set(METRICS)
    histograms = {metric.name for metric in METRICS.values() if metric.kind == "histogram"}
    past = without_a_past(rule.expression)
    found = [] if past is None else [f"{rule.source}: rule {rule.name}: {past}"]
    for name in sorted(rule.expression.names):
        base = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)
        if name in histograms:
            found.append(
                f"{rule.source}: rule {rule.name}: {name} is a histogram: ask for {name}_bucket, _sum or _count"
            )
        elif name not in known and base not in histograms:
            found.append(f"{rule.source}: rule {rule.name}: there is no metric {name}{nearest(name, known)}")
    return found


def _no_playbook(settings: Config, groups: Sequence[RuleGroup]) -> list[str]:
    """Playbooks that rules name and the configuration does not have."""
    try:
        known = configured_playbooks(settings, groups)
    except ConfigError as error:
        return str(error).splitlines()
    return [
        f"{rule.source}: rule {rule.name}: there is no playbook {rule.playbook}{nearest(rule.playbook, known)}"
        for group in groups
        for rule in group.rules
        if rule.playbook is not None and rule.playbook not in known
    ]


def _listed(group: RuleGroup, rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "group": group.name,
        "interval_seconds": group.interval_seconds,
        "severity": rule.severity,
        "expr": rule.expression.text,
        "for_seconds": rule.for_seconds,
        "keep_firing_for_seconds": rule.keep_firing_for_seconds,
        "labels": {name: text.text for name, text in rule.labels.items()},
        "annotations": {name: text.text for name, text in rule.annotations.items()},
        "playbook": rule.playbook,
        "description": rule.description,
        "source": rule.source,
    }


def _show(judged: Judged) -> None:
    print_table(
        ("trace", "at", "rule", "state", "labels", "value"),
        [
            (
                _plain(one.trace),
                exporting.duration(one.at),
                one.rule,
                one.state,
                _plain(" ".join(f"{name}={value}" for name, value in one.labels if name != "alertname")),
                one.value,
            )
            for one in judged.passages
        ],
        "no alert fires",
    )
    for one in judged.differences:
        remark(_plain(f"{one.source}: {one.trace}, at {exporting.duration(one.at)}: {one.rule}: {one.text}"))
    verdict = f"{len(judged.differences)} differences" if judged.differences else "as expected"
    print(f"{judged.name}: {judged.traces} traces, {judged.expectations} expectations: {verdict}")


def _told(judged: Judged) -> dict[str, Any]:
    return {
        "file": judged.name,
        "traces": judged.traces,
        "expectations": judged.expectations,
        "passages": [
            {
                "trace": one.trace,
                "at": one.at,
                "rule": one.rule,
                "state": one.state,
                "labels": dict(one.labels),
                "value": one.value,
            }
            for one in judged.passages
        ],
        "differences": [
            {"source": one.source, "trace": one.trace, "at": one.at, "rule": one.rule, "text": one.text}
            for one in judged.differences
        ],
    }


def _plain(text: str) -> str:
    """A label may hold what a terminal takes for an order."""
    return "".join(c if unicodedata.category(c)[0] != "C" else ascii(c)[1:-1] for c in text)
