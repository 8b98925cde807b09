"""Reading rule files: the short form under `alert_rules`, Prometheus' form under `groups`, or both in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from rules.rule import Rule, RuleError, RuleGroup
from rules.rule_fields import Fields, Page, expression, nearest, rule, shown
from rules.short_form import is_short, read_rule
from rules.slo_rules import LeftOut, with_limits
from rules.yaml_reading import MAX_CHARACTERS, YamlMistake, parse

LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS = 1.0, 3600.0
NO_LIMITS: Mapping[str, float | None] = MappingProxyType({})
SHIPPED = Path(__file__).parent / "shipped"
"""Where the rules that come with Trimtab are."""


def shipped_files() -> list[Path]:
    """The files of the rules that come with Trimtab."""
    return sorted(SHIPPED.glob("*.yaml"))


def load(
    paths: Iterable[Path],
    default_interval: float = 15.0,
    disabled: Set[str] = frozenset(),
    limits: Mapping[str, float | None] = NO_LIMITS,
    left_out: Callable[[LeftOut], None] = lambda _: None,
) -> tuple[RuleGroup, ...]:
    """Read rule files; rules named in `disabled` are left out, and groups that are then empty.

    `default_interval` (seconds) is that of groups which say none. `limits` are those of the SLO by their keys; a rule
    that needs one which is not there is left out, which `left_out` is told. Raises `RuleError` with one line for each
    mistake.
    """
    groups: list[RuleGroup] = []
    mistakes: list[str] = []
    without: list[LeftOut] = []
    for path in paths:
        try:
            groups += read(file_text(path), str(path), default_interval, limits, without.append)
        except RuleError as error:
            mistakes.append(str(error))
    for one in without:
        left_out(one)
    mistakes += _unknown(disabled - {one.rule for one in without}, groups)
    kept = [
        replace(group, rules=tuple(one for one in group.rules if one.name not in disabled))
        for group in groups
    ]
    mistakes += _twice(kept)
    if mistakes:
        raise RuleError("\n".join(mistakes))
    return _told_apart([group for group in kept if group.rules])


def read(
    text: str,
    name: str,
    default_interval: float = 15.0,
    limits: Mapping[str, float | None] = NO_LIMITS,
    left_out: Callable[[LeftOut], None] = lambda _: None,
) -> tuple[RuleGroup, ...]:
    """Read the text of one rule file, which mistakes call `name`; see `load`. Raises `RuleError`."""
    try:
        document, without = with_limits(parse(text), limits)
    except YamlMistake as error:
        place = f"{name}:{error.line}" if error.line else name
        raise RuleError(f"{place}: {error}") from error
    for one in without:
        left_out(one)
    page = Page(name, document)
    top = Fields(page, (), {} if document.values is None else document.values, "rule file")
    groups = []
    short = top.items("alert_rules")
    rules = [
        read_rule(Fields(page, ("alert_rules", index), given, f"rule {index + 1} of alert_rules"))
        for index, given in enumerate(short)
    ]
    if short:
        made = tuple(one for one in rules if one is not None)
        groups.append(RuleGroup(Path(name).stem, default_interval, made, page.source(("alert_rules",))))
    for index, given in enumerate(top.items("groups")):
        groups.append(_group(Fields(page, ("groups", index), given, f"group {index + 1}"), default_interval))
    top.done()
    names: dict[str, str] = {}
    for group in groups:
        if group.name in names:
            page.mistakes.append(
                f"{group.source}: group {group.name} is at {names[group.name]} too: rename one"
            )
        names.setdefault(group.name, group.source)
    if page.mistakes:
        raise RuleError("\n".join(page.mistakes))
    return tuple(groups)


def _group(fields: Fields, default_interval: float) -> RuleGroup:
    name = fields.name("name")
    if name is not None:
        fields.what = f"group {name}"
    interval = fields.duration("interval", default_interval, LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS)
    rules = [
        _rule(
            Fields(fields.page, (*fields.path, "rules", index), given, f"rule {index + 1} of {fields.what}")
        )
        for index, given in enumerate(fields.items("rules"))
    ]
    fields.done()
    made = tuple(one for one in rules if one is not None)
    return RuleGroup(name or "", interval, made, fields.page.source(fields.path))


def _rule(fields: Fields) -> Rule | None:
    if "record" in fields:
        fields.wrong("record", "rules that record are not evaluated here: leave it to Prometheus")
        return None
    if is_short(fields.values):
        fields.wrong("metric", "this is the short form, which belongs under `alert_rules`")
        return None
    name = fields.name("alert")
    if name is not None:
        fields.what = f"rule {name}"
    text = fields.text("expr", needed=True)
    condition = None if text is None else expression(fields, "expr", text)
    seconds = fields.duration("for")
    playbook = fields.text("playbook")
    if name is None or condition is None:
        for key in ("labels", "annotations", "description", "keep_firing_for"):
            fields.take(key)
        fields.done()
        return None
    made = rule(fields, name, condition, seconds, playbook)
    fields.done()
    return made


def file_text(path: Path) -> str:
    """The text of a file of ours, never more of it than can be meant. Raises `RuleError`."""
    try:
        with path.open("rb") as file:
            # Four bytes a character at most: whatever is longer is refused without being read to its end.
            content = file.read(4 * MAX_CHARACTERS + 1)
        return content.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise RuleError(f"{path}: no such file") from error
    except OSError as error:
        raise RuleError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RuleError(f"{path}: is no UTF-8 text (byte {error.start}), or far too long") from error


def _unknown(disabled: Set[str], groups: Sequence[RuleGroup]) -> list[str]:
    names = [one.name for group in groups for one in group.rules]
    return [
        f"rules.disabled: there is no rule {shown(name)}{nearest(name, names)}"
        for name in sorted(disabled - set(names))
    ]


def _twice(groups: Iterable[RuleGroup]) -> list[str]:
    """An alert's name is how it is found in the store, in `rules.disabled` and in an inbox: one rule each."""
    first: dict[str, Rule] = {}
    mistakes = []
    for one in (one for group in groups for one in group.rules):
        before = first.setdefault(one.name, one)
        if before is not one:
            mistakes.append(f"{one.source}: rule {one.name} is at {before.source} too: give one another name")
    return mistakes


def _told_apart(groups: Iterable[RuleGroup]) -> tuple[RuleGroup, ...]:
    """Groups of several files may share a name: the later ones get that of their file too."""
    made: dict[str, RuleGroup] = {}
    for group in groups:
        name, number = group.name, 1
        while name in made:
            number += 1
            name = f"{group.name} ({number})"
        made[name] = replace(group, name=name)
    return tuple(made.values())


def count(groups: Iterable[RuleGroup]) -> int:
    """How many rules there are."""
    return sum(len(group.rules) for group in groups)
