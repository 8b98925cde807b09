"""The short form of a rule, as operators write it: a metric, a threshold, a duration, an action.

It becomes an ordinary rule whose expression is `metric > threshold`.
"""

from __future__ import annotations

import math
import re
from typing import Any

from collectors.metrics import METRICS, Metric
from rules.rule import Rule
from rules.rule_fields import Fields, expression, nearest, rule, shown
from rules.template import number

ACTIONS: dict[str, str | None] = {
    "scale_up": "queue_over_100",
    "expand_batch": "queue_over_100",
    "restart_service": "restart_service",
    "notify": None,
}
"""Actions as the field's guides name them, and the playbook that each is here; None: the alert alone, which is sent."""

DEFAULT_COMPARISON = ">"
_THRESHOLD = re.compile(
    r"(?P<comparison>>=|<=|==|!=|>|<)?\s*(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>\S.*)?"
)
LONGEST_THRESHOLD = 60


def read_rule(fields: Fields) -> Rule | None:
    """Make a rule of one entry of `alert_rules`; None if its name, metric or threshold is wrong, which is noted."""
    name = fields.name("name")
    if name is not None:
        fields.what = f"rule {name}"
    metric = _metric(fields)
    condition = _condition(fields, metric)
    seconds = fields.duration("duration")
    playbook = _playbook(fields)
    severity = fields.take("severity")
    parsed = None if condition is None else expression(fields, "metric", condition)
    if name is None or parsed is None:
        # The other keys are known all the same: what is wrong with them is said once the rule can be made.
        for key in ("labels", "annotations", "description", "keep_firing_for"):
            fields.take(key)
        fields.done()
        return None
    made = rule(fields, name, parsed, seconds, playbook, severity)
    fields.done()
    return made


def _metric(fields: Fields) -> Metric | None:
    name = fields.text("metric", needed=True)
    if name is None:
        return None
    metric = METRICS.get(name)
    if metric is None:
        known = nearest(name, METRICS)
        fields.wrong("metric", f"there is no metric {shown(name)}{known or '; docs/metrics.md lists them'}")
    elif metric.kind == "histogram":
        fields.wrong(
            "metric", f"{name} is a histogram: write `expr: histogram_quantile(...)` under `groups` instead"
        )
        return None
    elif metric.kind == "counter":
        fields.wrong("metric", f"{name} only ever grows: write `expr: rate({name}[5m]) > ...` under `groups`")
        return None
    return metric


def _condition(fields: Fields, metric: Metric | None) -> str | None:
    given = fields.take("threshold")
    if given is None:
        fields.wrong(None, "has no threshold")
        return None
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        fields.wrong("threshold", f'must be as 85%, "> 85" or 85, not {shown(given)}')
        return None
    comparison, value, unit = DEFAULT_COMPARISON, 0.0, ""
    if isinstance(given, str):
        found = _THRESHOLD.fullmatch(given.strip()) if len(given) <= LONGEST_THRESHOLD else None
        if found is None:
            fields.wrong("threshold", f'must be as 85%, "> 85" or 85, not {shown(given)}')
            return None
        comparison = found["comparison"] or comparison
        value, unit = float(found["number"]), found["unit"] or ""
    else:
        value = float(given)
    if not math.isfinite(value):
        fields.wrong("threshold", f"must be a number that ends, not {shown(given)}")
        return None
    if metric is None:
        return None
    if unit not in ("", "%"):
        fields.wrong("threshold", f"leave {shown(unit)} out: {metric.name} is in {metric.unit}")
        return None
    if unit == "%":
        if metric.unit not in ("ratio", "percent"):
            fields.wrong("threshold", f"{metric.name} is in {metric.unit}, of which there are no percent")
            return None
        value = value / 100.0 if metric.unit == "ratio" else value
    elif metric.unit == "ratio" and value > 1.0:
        fields.wrong(
            "threshold", f"{metric.name} is a share of 0 to 1, never over {value:g}: did you mean {value:g}%?"
        )
        return None
    elif metric.unit == "percent" and 0.0 < value < 1.0:
        fields.wrong(
            "threshold",
            f"{metric.name} is in percent of 0 to 100: did you mean {100 * value:g}%? Write {value:g}% if not",
        )
        return None
    # Engines that are only watched carry the label: what is done for an alert is done to the tuned one.
    tuned = '{server=""}' if "server" in metric.labels else ""
    return f"{metric.name}{tuned} {comparison} {number(round(value, 12))}"


def _playbook(fields: Fields) -> str | None:
    action = fields.text("action")
    playbook = fields.text("playbook")
    if action is None:
        return playbook
    if playbook is not None:
        fields.wrong("action", "stands beside playbook: leave one of them out")
    return ACTIONS.get(action, action)


def is_short(values: Any) -> bool:
    """Whether a mapping looks like this form, for the mistake of one under `groups`."""
    return isinstance(values, dict) and "metric" in values and "expr" not in values
