"""What the exporter says of the rules and their alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from collectors.sample import Sample, labels
from rules.evaluator import Evaluator


def samples(evaluator: Evaluator, now: float) -> Iterator[Sample]:
    """Alerts by name, severity and state, and the health of rules and groups; what is not known yet is absent."""
    counted = Counter(
        (alert.rule, alert.severity, alert.state) for alert in evaluator.alerts() if alert.state != "resolved"
    )
    for (name, severity, state), count in sorted(counted.items()):
        own = labels(alertname=name, severity=severity, state=state)
        yield Sample("trimtab_alerts", float(count), now, own)
    for group in evaluator.health():
        own = labels(rule_group=group.group)
        for rule in group.rules:
            pair = labels(rule=rule.rule, rule_group=group.group)
            yield Sample("trimtab_rule_evaluation_failures_total", float(rule.failures), now, pair)
        yield Sample("trimtab_rule_group_interval_seconds", group.interval_seconds, now, own)
        yield Sample("trimtab_rule_group_iterations_missed_total", float(group.missed), now, own)
        if group.last_evaluation is not None:
            last = group.last_evaluation
            yield Sample("trimtab_rule_group_last_evaluation_timestamp_seconds", last, now, own)
        if group.duration_seconds is not None:
            yield Sample("trimtab_rule_group_last_duration_seconds", group.duration_seconds, now, own)
