"""Puts the operator's SLO into rules: `${slo.ttft_p99_seconds}` in a rule file is the limit of that name.

A rule whose limit is not set is left out, and that is said; so is one that asks for more than all requests to fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rules.yaml_reading import Document, Path

LIMITS = (
    *(
        f"{metric}_{quantile}_seconds"
        for metric in ("ttft", "itl", "e2e")
        for quantile in ("p50", "p90", "p99")
    ),
    "error_ratio",
)
"""The keys of `slo`."""
_SHARE = re.compile(r"(?<![\w.])(\d{1,9}(?:\.\d{1,9})?)\s*\*\s*\$\{slo\.error_ratio\}")
_PLACE = re.compile(r"\$\{slo\.(\w+)\}")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A rule that is not evaluated because its limits are not set, or `never` holds: the text says why."""

    rule: str
    unset: tuple[str, ...]
    never: str = ""

    def __str__(self) -> str:
        if self.never:
            return f"{self.rule} is left out: {self.never}"
        return f"{self.rule} is left out: {' and '.join(f'slo.{name}' for name in self.unset)} is not set"


def with_limits(
    document: Document, limits: Mapping[str, float | None]
) -> tuple[Document, tuple[LeftOut, ...]]:
    """Fill the limits into a rule file's values; rules that need one which is not set are taken out of it.

    Lines stay those of the file. A name that is no key of `slo` is left as it stands, so that the expression's own
    error shows it.
    """
    values = document.values
    if not isinstance(values, dict) or not isinstance(values.get("groups"), list):
        return document, ()
    left_out: list[LeftOut] = []
    lines = dict(document.lines)
    groups: list[Any] = []
    for number, group in enumerate(values["groups"]):
        if not isinstance(group, dict) or not isinstance(group.get("rules"), list):
            groups.append(group)
            continue
        kept: list[Any] = []
        here: Path = ("groups", number, "rules")
        for index, rule in enumerate(group["rules"]):
            if not isinstance(rule, dict):
                # Who reads rules says what is wrong with it, and where.
                _move(document.lines, lines, (*here, index), (*here, len(kept)))
                kept.append(rule)
                continue
            unset = {name for name in _names(rule) if name in LIMITS and limits.get(name) is None}
            if unset:
                left_out.append(LeftOut(str(rule.get("alert")), tuple(sorted(unset))))
                continue
            never = _never(rule.get("expr"), limits)
            if never is not None:
                left_out.append(LeftOut(str(rule.get("alert")), (), never))
                continue
            _move(document.lines, lines, (*here, index), (*here, len(kept)))
            kept.append(_filled(rule, limits))
        groups.append({**group, "rules": kept})
    return Document({**values, "groups": groups}, lines), tuple(left_out)


def _never(condition: object, limits: Mapping[str, float | None]) -> str | None:
    """Why the condition of a rule can never hold: no share is over 1."""
    for found in _SHARE.finditer(condition) if isinstance(condition, str) else ():
        ratio = limits.get("error_ratio")
        if ratio is not None and float(found[1]) * ratio >= 1.0:
            return f"{found[1]} times slo.error_ratio ({ratio:g}) is more than all requests"
    return None


def _names(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return _PLACE.findall(value)
    if isinstance(value, dict):
        return [name for inner in value.values() for name in _names(inner)]
    return []


def _filled(value: Any, limits: Mapping[str, float | None]) -> Any:
    if isinstance(value, str):
        return _PLACE.sub(lambda found: _number(limits.get(found[1]), found[0]), value)
    if isinstance(value, dict):
        return {key: _filled(inner, limits) for key, inner in value.items()}
    return value


def _number(limit: float | None, otherwise: str) -> str:
    return otherwise if limit is None else f"{limit:.12g}"


def _move(old: Mapping[Path, int], new: dict[Path, int], source: Path, target: Path) -> None:
    """A rule that moved up in its list keeps the lines where it is written."""
    if source == target:
        return
    for path in [path for path in new if path[: len(target)] == target]:
        del new[path]
    for path, line in old.items():
        if path[: len(source)] == source:
            new[(*target, *path[len(source) :])] = line
