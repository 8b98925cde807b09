"""The report of an outer loop: that of a campaign, with a part of its own for the start-up settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from change.engine import Values
from change.restart.order import RestartResult
from change.server import Settings
from tuner.messages import Decision, Observation
from tuner.objective import Scale
from tuner.outer.budget import Spent
from tuner.outer.settings import OuterSettings
from tuner.outer.trial import ColdTrial
from tuner.settings import Slo, TuneSettings
from tuner.window import failed, meets

LABEL = "not error-controlled"


class OuterReport:
    """Collects the figures of one outer loop; `document` writes them down."""

    def __init__(
        self, settings: TuneSettings, slo: Slo, outer: OuterSettings, cold: Settings, hot: Values
    ) -> None:
        self.started = 0.0
        self.reasons: list[str] = []
        self.hot: Mapping[str, Any] = {}
        """The report of the hot campaign on the incumbent."""
        self._settings = settings
        self._slo = slo
        self._outer = outer
        self.incumbent = dict(cold)
        """The start-up settings that served at the start."""
        self._incumbent = dict(hot)
        self._inner: list[Mapping[str, Any]] = []
        self._restarts: list[dict[str, Any]] = []
        self._winner: ColdTrial | None = None
        self._effect: Mapping[str, Any] | None = None
        self._requests = self._failed = 0
        self._errors = 0.0
        self._seconds: dict[int, list[int]] = {}

    def tuned(self, report: Mapping[str, Any], trial: int | None) -> None:
        """A hot campaign ended, on the incumbent or on a trial."""
        if trial is None:
            self.hot = report
        self._inner.append(report)

    def restarted(self, result: RestartResult, trial: int) -> None:
        """A restart came to its end; trial 0 is the incumbent."""
        self._restarts.append(
            {
                "trial": trial,
                "outcome": result.outcome,
                "phase": result.phase,
                "reason": result.reason,
                "seconds": dict(result.seconds),
                "down_seconds": result.down_seconds,
                "own_seconds": result.own_seconds,
            }
        )

    def see(self, seen: Observation) -> None:
        """Count what one observation of a stint brought; hot campaigns count their own."""
        self._errors += seen.errors
        limits = self._slo.request_limits()
        for record in seen.page.records if seen.page else ():
            if record.arrival < self.started:
                continue
            self._requests += 1
            self._failed += failed(record)
            second = self._seconds.setdefault(math.floor(record.arrival), [0, 0])
            second[0] += 1
            second[1] += not meets(record, limits)

    def promoted(self, trial: ColdTrial) -> None:
        """A candidate held through its probation."""
        self._winner, self._effect = trial, trial.effect

    def document(
        self,
        now: float,
        decision: Decision,
        trials: Sequence[ColdTrial],
        spent: Spent,
        skipped: Sequence[str],
        hot: Values,
        scale: Scale | None,
    ) -> dict[str, Any]:
        """The whole report; `hot` are the hot values that serve at the end."""
        winner = self._winner
        inner = self._inner
        # What a hot campaign on the incumbent promoted stands, whatever came of the start-up settings.
        whole = "promoted" if winner is None and self.hot.get("decision") == "promoted" else decision
        stands = whole == "promoted" and decision not in ("aborted", "superseded")
        effect = self._effect if winner is not None else self.hot.get("effect") if stands else None
        objective = self.hot.get("objective") or _objective(scale)
        return {
            "decision": whole if stands else decision,
            "incumbent": self._incumbent,
            "winner": dict(hot) if stands else None,
            "requested": dict(hot),
            "effective": dict(hot),
            "objective": objective,
            "effect": None if effect is None else {name: effect[name] for name in ("median", "low", "high")},
            "detectable_effect": self.hot.get("detectable_effect"),
            "other_metrics": self.hot.get("other_metrics", {}),
            "trials": len(trials) + _sum(inner, "trials"),
            "blocks": _sum(inner, "blocks"),
            "pairs": _sum(inner, "pairs"),
            "restarts": spent.restarts,
            "failed_requests": int(max(self._errors, self._failed)) + _sum(inner, "failed_requests"),
            "slo_violation_seconds": self._violations(),
            "switch_seconds": self.hot.get("switch_seconds", {"p50": None, "p99": None}),
            "traffic": {
                **self.hot.get("traffic", {}),
                "requests": self._requests + sum(r.get("traffic", {}).get("requests", 0) for r in inner),
                "seconds": now - self.started,
            },
            "calibration": self.hot.get("calibration", {}),
            "skipped_priors": [*self.hot.get("skipped_priors", []), *skipped],
            "reasons": [*self.hot.get("reasons", []), *self.reasons],
            "cold": {
                "decision": decision,
                "label": LABEL if winner is not None else None,
                "incumbent": self.incumbent,
                "winner": None if winner is None else dict(winner.settings),
                "requested": dict(self.incumbent if winner is None else winner.settings),
                "effective": dict(self.incumbent if winner is None else winner.effective or {}),
                "effect": self._effect,
                "restarts": spent.restarts,
                "restarts_allowed": self._outer.restarts,
                "lost_minutes": spent.lost_seconds / 60.0,
                "own_minutes": spent.own_seconds / 60.0,
                "longest_seconds": spent.longest_seconds,
                "each": self._restarts,
                "trials": [trial.document() for trial in trials],
                "reasons": self.reasons,
            },
            "hot": {"decision": self.hot.get("decision"), "effect": self.hot.get("effect")},
        }

    def _violations(self) -> int | None:
        """Seconds whose arrivals' violating share is above the tightest allowance; None without limits."""
        limits = self._slo.request_limits()
        if not limits:
            return None
        allowance = min(limit.allowance for limit in limits.values())
        own = sum(bad / count > allowance for count, bad in self._seconds.values())
        return own + sum(report.get("slo_violation_seconds") or 0 for report in self._inner)


def _sum(reports: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(report.get(name) or 0 for report in reports)


def _objective(scale: Scale | None) -> dict[str, Any]:
    if scale is None:
        return {}
    return {
        "name": scale.name,
        "unit": scale.unit,
        "direction": scale.direction,
        "metrics": list(scale.metrics),
    }
