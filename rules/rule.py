"""A rule: a condition that has to hold for a time, and what an alert of it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from rules.expression import Expression
from rules.template import Template

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
DEFAULT_SEVERITY: Severity = "warning"

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
ALERT_NAME = "alertname"


class RuleError(Exception):
    """Rules cannot be used; every line of the text is one mistake: file, line, rule, what is wrong, what was meant."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert rule, from either form of file.

    `labels` hold a `severity`; `annotations` hold `description` and `playbook` too, as Alertmanager and an exported
    rule have them. `source` is `file:line`.
    """

    name: str
    expression: Expression
    for_seconds: float = 0.0
    keep_firing_for_seconds: float = 0.0
    labels: Mapping[str, Template] = field(default_factory=dict)
    annotations: Mapping[str, Template] = field(default_factory=dict)
    playbook: str | None = None
    description: str = ""
    source: str = ""

    @property
    def severity(self) -> str:
        """How bad it is: info, warning or critical."""
        severity = self.labels.get("severity")
        return DEFAULT_SEVERITY if severity is None else severity.text


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated together, every `interval_seconds`."""

    name: str
    interval_seconds: float
    rules: tuple[Rule, ...]
    source: str = ""
