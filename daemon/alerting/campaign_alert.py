"""Which alert ends a trial: a new one about the engine, which the candidate in force may have caused.

A critical alert does while it fires: nothing is measured on an engine or a card that is broken. A warning does in the
first minute of its firing, if it looks back no further than five minutes: one that stood before is a condition that
incumbent and candidates share, and one that looks back an hour tells of other candidates too. For that reason a
critical alert about the SLO's budget is held to what a warning is: a violated SLO is what a campaign is to mend.
Neither an alert of severity info ends one, nor one about Trimtab itself (its sources, its own loops), nor one about
another engine: a card of its own, or an engine that is only watched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collectors.metrics.own import OWN_ROWS
from collectors.sample import Labels
from daemon.sections.canary import CANARY
from rules.evaluator import Evaluator
from rules.rule import Rule, RuleGroup

NEW_SECONDS = 60.0
LONGEST_REACH_SECONDS = 300.0
SLO_PLAYBOOK = "slo_burn"
SLO_NAMES = (
    "trimtab_engine_ttft_seconds",
    "trimtab_engine_itl_seconds",
    "trimtab_engine_e2e_seconds",
    "trimtab_engine_http_errors_total",
)
"""Beginnings of the names that speak of the SLO; a histogram's have an ending."""
_OWN_NAMES = frozenset(row.name for row in OWN_ROWS)


class CampaignAlert:
    """Says at each second of a campaign which alert speaks against the candidate in force."""

    def __init__(
        self,
        evaluator: Evaluator,
        groups: Sequence[RuleGroup],
        own_card: Callable[[str], bool | None] = lambda npu: True,
    ) -> None:
        """`own_card` says which NPUs are the engine's, None for unknown."""
        self._evaluator = evaluator
        self._own_card = own_card
        self._rules = {rule.name: rule for group in groups for rule in group.rules}

    def __call__(self, now: float) -> str | None:
        """Name the alert, None if there is none."""
        for alert in self._evaluator.alerts():
            rule = self._rules.get(alert.rule)
            if alert.state != "firing" or rule is None or alert.fired_at is None:
                continue
            if _about_trimtab(rule) or self._about_another(alert.labels):
                continue
            new = (
                0.0 <= now - alert.fired_at < NEW_SECONDS
                and rule.expression.reach_seconds <= LONGEST_REACH_SECONDS
            )
            lasting = alert.severity == "critical" and not _about_slo(rule)
            if lasting or (alert.severity in ("critical", "warning") and new):
                return alert.rule
        return None

    def _about_another(self, labels: Labels) -> bool:
        """Whether an alert is about an engine beside the tuned one, or about its card; the canary tries candidates."""
        found = dict(labels)
        collector = found.get("collector", "")
        return (
            found.get("server", "") not in ("", CANARY)
            or (collector.startswith("engine:") and collector != f"engine:{CANARY}")
            or ("npu" in found and self._own_card(found["npu"]) is False)
        )


def _about_slo(rule: Rule) -> bool:
    return rule.playbook == SLO_PLAYBOOK or any(name.startswith(SLO_NAMES) for name in rule.expression.names)


def _about_trimtab(rule: Rule) -> bool:
    names = rule.expression.names
    return bool(names) and names <= _OWN_NAMES
