"""How the alerts of one rule come and go, as `AlertingRule.Eval` of Prometheus has it.

A condition that holds makes an alert pending, and firing once it has held for the rule's `for`. One that no longer
holds resolves the alert, or forgets it if it never fired. What is resolved is kept for `RESOLVED_SECONDS` and sent
again meanwhile, in case Alertmanager did not hear it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from collectors.sample import Labels
from rules.alert import Alert
from rules.readings import Point
from rules.rule import ALERT_NAME, Rule

RESOLVED_SECONDS = 15 * 60.0
"""How long a resolved alert is kept and sent again; Prometheus' `resolvedRetention`."""
RESEND_SECONDS = 60.0
"""Least time between two sendings of an alert that did not change; Prometheus' `--rules.alert.resend-delay`."""
VALID_INTERVALS = 4
"""For how many intervals (or resend delays) an alert that is sent holds without being sent again."""
METRIC_NAME = "__name__"


MOST_ALERTS = 1000
"""Alerts of one rule at a time; nobody reads more, and each is kept, stored and sent."""


class BadResult(Exception):
    """A rule's result makes no alerts: two with the same labels, or far too many of them."""


@dataclass(frozen=True, slots=True)
class Standing:
    """An alert with what only its rule's evaluation needs to know.

    `unseen_since` is set on an alert that came out of the store and whose condition has not been seen to hold since:
    from then on nobody knows whether it did.
    """

    alert: Alert
    sent_at: float = -math.inf
    unseen_since: float | None = None

    @property
    def active(self) -> bool:
        """Whether it is pending or firing."""
        return self.alert.state != "resolved"


Standings = Mapping[Labels, Standing]


@dataclass(frozen=True, slots=True)
class Advanced:
    """The alerts of a rule after an evaluation, and those which entered another state in it.

    A pending alert that is forgotten is in `forgotten`.
    """

    standings: dict[Labels, Standing]
    changes: tuple[Alert, ...]
    forgotten: tuple[Alert, ...]


def advance(
    rule: Rule, group: str, before: Standings, points: Sequence[Point], at: float, *, settled: bool = True
) -> Advanced:
    """Take in what the rule's expression gave at a time (Unix seconds).

    Until the readings go back far enough (`settled`), that the condition of an alert from the store is not seen to hold
    says nothing: it stays as it is. Raises `BadResult`; then nothing has changed.
    """
    seen = _seen(rule, group, points, at)
    after: dict[Labels, Standing] = {}
    changes: list[Alert] = []
    forgotten: list[Alert] = []
    for labels, standing in before.items():
        if labels in seen:
            continue
        gone = _gone(rule, standing, at, settled=settled)
        if gone is None:
            if standing.active:
                forgotten.append(standing.alert)
            continue
        after[labels] = gone
        if gone.alert.state != standing.alert.state:
            changes.append(gone.alert)
    for labels, alert in seen.items():
        old = before.get(labels)
        held = _held(rule, old if old is not None and old.active else None, alert, at)
        after[labels] = held
        if old is None or old.alert.state != held.alert.state:
            changes.append(held.alert)
    return Advanced(after, tuple(changes), tuple(forgotten))


def sending(standings: Standings, at: float, interval: float) -> dict[Labels, Standing]:
    """The alerts that are to be sent at a time, marked as sent, with until when they are valid."""
    valid_until = at + VALID_INTERVALS * max(interval, RESEND_SECONDS)
    return {
        labels: replace(one, sent_at=at, alert=replace(one.alert, valid_until=valid_until))
        for labels, one in standings.items()
        if _needs_sending(one, at)
    }


def shifted(standings: Standings, back: float) -> dict[Labels, Standing]:
    """The alerts after the clock was set back by so many seconds: how long a condition has held stays the same."""
    return {
        labels: replace(
            one,
            sent_at=one.sent_at - back,
            unseen_since=_less(one.unseen_since, back),
            alert=replace(
                one.alert,
                active_at=one.alert.active_at - back,
                fired_at=_less(one.alert.fired_at, back),
                resolved_at=_less(one.alert.resolved_at, back),
                keep_firing_since=_less(one.alert.keep_firing_since, back),
            ),
        )
        for labels, one in standings.items()
    }


def _seen(rule: Rule, group: str, points: Sequence[Point], at: float) -> dict[Labels, Alert]:
    """The alerts that the result stands for, as if they all were new."""
    if len(points) > MOST_ALERTS:
        raise BadResult(
            f"{len(points)} alerts at once, over {MOST_ALERTS}: put fewer labels in it with `sum by`"
        )
    made: dict[Labels, Alert] = {}
    for point in points:
        pairs = {name: value for name, value in point.labels if name != METRIC_NAME}
        given = {name: text.render(pairs, point.value) for name, text in rule.labels.items()}
        # An empty label is none at all.
        labels = tuple(
            sorted(
                (name, value) for name, value in (pairs | given | {ALERT_NAME: rule.name}).items() if value
            )
        )
        if not all(encodable(part) for pair in labels for part in pair):
            raise BadResult(f"a label of {_written(labels)} holds half a character (a lone surrogate)")
        if labels in made:
            raise BadResult(
                f"two series are the same alert {_written(labels)}: add a label that tells them apart, or `sum by` it"
            )
        annotations = {name: text.render(pairs, point.value) for name, text in rule.annotations.items()}
        made[labels] = Alert(
            rule.name,
            labels,
            annotations,
            "pending",
            point.value,
            at,
            playbook=rule.playbook,
            group=group,
            for_seconds=rule.for_seconds,
        )
    return made


def _held(rule: Rule, old: Standing | None, new: Alert, at: float) -> Standing:
    """An alert whose condition holds."""
    if old is None:
        standing = Standing(new)
    else:
        active_at = old.alert.active_at
        if old.unseen_since is not None and old.alert.state == "pending":
            # Nobody knows whether it held meanwhile: that time does not count.
            active_at += max(0.0, at - old.unseen_since)
        standing = replace(
            old,
            unseen_since=None,
            alert=replace(
                old.alert,
                active_at=active_at,
                value=new.value,
                annotations=new.annotations,
                playbook=new.playbook,
                keep_firing_since=None,
            ),
        )
    alert = standing.alert
    if alert.state == "pending" and at - alert.active_at >= rule.for_seconds:
        standing = replace(standing, alert=replace(alert, state="firing", fired_at=at))
    return standing


def _gone(rule: Rule, standing: Standing, at: float, *, settled: bool) -> Standing | None:
    """An alert whose condition does not hold; None once it is forgotten."""
    alert = standing.alert
    if alert.state == "resolved":
        resolved_at = at if alert.resolved_at is None else alert.resolved_at
        return None if at - resolved_at > RESOLVED_SECONDS else standing
    if standing.unseen_since is not None and not settled:
        return standing
    if alert.state == "pending":
        return None
    if rule.keep_firing_for_seconds > 0:
        since = at if alert.keep_firing_since is None else alert.keep_firing_since
        if at - since < rule.keep_firing_for_seconds:
            return replace(standing, alert=replace(alert, keep_firing_since=since))
        alert = replace(alert, keep_firing_since=since)
    return replace(standing, unseen_since=None, alert=replace(alert, state="resolved", resolved_at=at))


def _needs_sending(standing: Standing, at: float) -> bool:
    alert = standing.alert
    if alert.state == "pending":
        return False
    if alert.resolved_at is not None and alert.resolved_at > standing.sent_at:
        return True
    return standing.sent_at + RESEND_SECONDS < at


def _less(time: float | None, back: float) -> float | None:
    return None if time is None else time - back


def encodable(text: str) -> bool:
    """Whether the text is whole characters, as everything that leaves here must be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _written(labels: Labels) -> str:
    return "{" + ", ".join(f"{name}={value!r}" for name, value in labels) + "}"
