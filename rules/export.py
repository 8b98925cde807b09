"""The same rules for a real Prometheus: its rule file, which `promtool check rules` accepts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from rules.expression.narrowed import narrowed
from rules.rule import Rule, RuleGroup

Label = tuple[str, str]
"""Name and value."""

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def export(groups: Iterable[RuleGroup], of: Label | None = None) -> str:
    """Write the rules as YAML; a playbook and a description are annotations there.

    A playbook is a label too, by which Alertmanager routes and Trimtab knows what to walk. `of` is a label that the
    series of one Trimtab have in that Prometheus: the rules then ask for those alone, and their alerts carry it.
    """
    text = as_yaml(as_values(groups, of))
    if of is None:
        return text
    label = as_yaml({of[0]: of[1]}).strip()
    return f"# Only of series with this label, which the scrape of Trimtab's page has to set:\n#   {label}\n{text}"


def as_yaml(values: dict[str, Any]) -> str:
    """Plain values as YAML that every version of it reads alike."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def as_values(groups: Iterable[RuleGroup], of: Label | None = None) -> dict[str, Any]:
    """The rule file as plain values; `of` as for `export`."""
    return {
        "groups": [
            {
                "name": group.name,
                "interval": duration(group.interval_seconds),
                "rules": [_rule(rule, of) for rule in group.rules],
            }
            for group in groups
        ]
    }


def duration(seconds: float) -> str:
    """A duration as Prometheus writes it, to the millisecond: `1h30m`."""
    left = round(seconds * 1000)
    text = ""
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _rule(rule: Rule, of: Label | None) -> dict[str, Any]:
    text = rule.expression.text if of is None else narrowed(rule.expression, *of)
    made: dict[str, Any] = {"alert": rule.name, "expr": text}
    if rule.for_seconds > 0:
        made["for"] = duration(rule.for_seconds)
    if rule.keep_firing_for_seconds > 0:
        made["keep_firing_for"] = duration(rule.keep_firing_for_seconds)
    made["labels"] = {name: text.text for name, text in rule.labels.items()}
    if rule.playbook is not None:
        made["labels"].setdefault("playbook", rule.playbook)
    if of is not None:
        made["labels"][of[0]] = of[1]
    if rule.annotations:
        made["annotations"] = {name: text.text for name, text in rule.annotations.items()}
    return made


class _Dumper(yaml.SafeDumper):
    """Texts that another version of YAML would read as something else are quoted: `on`, `22:00`, `0x10`."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    if text.replace("_", "a").isascii() and text.replace("_", "a").isalpha() and text.lower() not in _WORDS:
        style = None
    elif text.isprintable():
        style = "'"
    else:
        style = "|" if text.isascii() and text.replace("\n", "").isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_Dumper.add_representer(str, _text)
