"""The alerts and the rules' health as the page and the API show them (`web.alert_shapes`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rules.alert import Alert
from rules.evaluator import Evaluator, GroupHealth
from rules.rule import Rule, RuleGroup

_ORDER = {"critical": 0, "warning": 1, "info": 2}
_STATES = {"firing": 0, "pending": 1, "resolved": 2}


def alerts(evaluator: Evaluator, groups: Sequence[RuleGroup]) -> dict[str, Any]:
    """Current alerts, the worst and oldest first, and every group with its rules."""
    standing = sorted(
        evaluator.alerts(),
        key=lambda one: (_STATES[one.state], _ORDER.get(one.severity, 3), one.active_at, one.labels),
    )
    rules = {rule.name: rule for group in groups for rule in group.rules}
    states = {}
    for one in reversed(standing):
        states[one.rule] = one.state
    return {
        "enabled": True,
        "alerts": [_alert(one) for one in standing],
        "groups": [_group(one, rules, states) for one in evaluator.health()],
        "trouble": evaluator.trouble,
    }


def disabled() -> dict[str, Any]:
    """What is shown where no rules are evaluated."""
    return {"enabled": False, "alerts": [], "groups": [], "trouble": None}


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "name": alert.rule,
        "severity": alert.severity,
        "state": alert.state,
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "value": alert.value,
        "active_at": alert.active_at,
        "fired_at": alert.fired_at,
        "resolved_at": alert.resolved_at,
        "keep_firing_since": alert.keep_firing_since,
        "playbook": alert.playbook,
        "group": alert.group,
        "fingerprint": alert.fingerprint,
    }


def _group(health: GroupHealth, rules: Mapping[str, Rule], states: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": health.group,
        "interval_seconds": health.interval_seconds,
        "last_evaluation": health.last_evaluation,
        "duration_seconds": health.duration_seconds,
        "missed": health.missed,
        "rules": [
            {
                "name": one.rule,
                "expr": rules[one.rule].expression.text,
                "for_seconds": rules[one.rule].for_seconds,
                "keep_firing_for_seconds": rules[one.rule].keep_firing_for_seconds,
                "severity": rules[one.rule].severity,
                "playbook": rules[one.rule].playbook,
                "description": rules[one.rule].description,
                "source": rules[one.rule].source,
                "state": states.get(one.rule, "inactive"),
                "health": "err" if one.last_error else "unknown" if one.last_evaluation is None else "ok",
                "last_error": one.last_error,
                "last_evaluation": one.last_evaluation,
                "failures": one.failures,
            }
            for one in health.rules
        ],
    }
