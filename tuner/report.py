"""The report of a campaign: what was decided, by how much, and at what cost, as one plain document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from change.choices import Options, worded, words
from tuner.objective import Scale
from tuner.settings import Slo, TuneSettings
from tuner.window import failed, meets, quantile

if TYPE_CHECKING:
    from tuner.calibration import Calibrated
    from tuner.candidate import Candidate
    from tuner.confirm import Verdict
    from tuner.messages import Decision, Observation
    from tuner.results import Results
    from tuner.switchback import ScoredWindow


class Report:
    """Collects the figures of one campaign; `document` writes them down in the form of `trimtab report --json`."""

    def __init__(
        self,
        settings: TuneSettings,
        slo: Slo,
        incumbent: Mapping[str, float],
        options: Options = MappingProxyType({}),
    ) -> None:
        """`options` are the texts of the knobs that have texts: the document holds the texts."""
        self.started = 0.0
        self.reasons: list[str] = []
        self.fingerprint: dict[str, float] = {}
        self.calibration: dict[str, float] = {}
        self.objective: dict[str, Any] = {}
        self.skipped_priors: list[str] = []
        self.watts_known = False
        self._settings = settings
        self._slo = slo
        self._options = options
        self.incumbent = dict(incumbent)
        self._effective: Mapping[str, float] = dict(incumbent)
        self._winner: dict[str, float] | None = None
        self._effect: dict[str, Any] | None = None
        self._others: dict[str, float] = {}
        self._requests = 0
        self._failed = 0
        self._errors = 0.0
        self._seconds: dict[int, list[int]] = {}
        self._switches: list[float] = []

    def see(self, now: float, seen: Observation) -> None:
        """Count what one observation brought."""
        if seen.watts is not None:
            self.watts_known = True
        self._errors += seen.errors
        if seen.state is not None and seen.state.lease_remaining_seconds is None:
            # What the engine holds for good; under a lease it is only being tried.
            self._effective = seen.state.values
        if seen.page is None:
            return
        limits = self._slo.request_limits()
        for record in seen.page.records:
            if record.arrival < self.started:
                continue
            self._requests += 1
            self._failed += failed(record)
            bad = not meets(record, limits)
            second = self._seconds.setdefault(math.floor(record.arrival), [0, 0])
            second[0] += 1
            second[1] += bad

    def switched(self, seconds: float) -> None:
        """One switch was answered after `seconds`."""
        self._switches.append(seconds)

    def looked(self, scale: Scale, fingerprint: dict[str, float]) -> None:
        """What is improved, and on which traffic."""
        self.fingerprint = fingerprint
        self.objective = {
            "name": scale.name,
            "unit": scale.unit,
            "direction": scale.direction,
            "metrics": list(scale.metrics),
        }
        if scale.note:
            self.reasons.append(scale.note)

    def calibrated(self, results: Results, found: Calibrated, windows: Sequence[ScoredWindow]) -> None:
        """How the campaign measures: noise on the gain scale, seconds, and the effect it can tell from noise."""
        timing = found.timing
        self.calibration = {
            "paired_sd": found.raw_sd,
            "paired_sd_expected": found.sd,
            "washout_seconds": timing.washout,
            "window_seconds": timing.window,
            "settle_seconds": timing.settle,
            "detectable_effect": found.detectable,
            "incumbent": results.scale.value(results.reference),
        }
        for name in sorted(
            {name for window in windows for name in window.metrics if name.endswith("_seconds")}
        ):
            values = [window.metrics[name] for window in windows if name in window.metrics]
            self.calibration[f"incumbent_{name}"] = mean(values)

    def judged(self, verdict: Verdict, others: dict[str, float]) -> None:
        """What a confirmation measured of the objective and of every other metric."""
        self._effect = dict(verdict.effect) or None
        self._others = others

    def promoted(self, challenger: Candidate) -> None:
        """A challenger won."""
        self._winner = dict(challenger.values)

    def returned(self) -> None:
        """The winner was taken back."""
        self._winner = None

    def promotion_text(self) -> str:
        """What a person approves: the values that change and the effect that was confirmed."""
        changed = {k: v for k, v in (self._winner or {}).items() if self.incumbent.get(k) != v}
        values = ", ".join(
            f"{name} {words(name, self.incumbent.get(name, 0), self._options)}"
            f" -> {words(name, value, self._options)}"
            for name, value in changed.items()
        )
        effect = self._effect or {}
        return f"{values} ({effect.get('median', 0):+.1%}, {effect.get('low', 0):+.1%} to {effect.get('high', 0):+.1%})"

    def violation_seconds(self) -> int | None:
        """Seconds whose arrivals' violating share is above the tightest allowance; None without limits."""
        limits = self._slo.request_limits()
        if not limits:
            return None
        allowance = min(limit.allowance for limit in limits.values())
        return sum(bad / count > allowance for count, bad in self._seconds.values())

    def document(self, now: float, decision: Decision, results: Results | None) -> dict[str, Any]:
        """The whole report."""
        winner = worded(self._winner, self._options) if decision == "promoted" and self._winner else None
        incumbent = worded(self.incumbent, self._options)
        switches = sorted(self._switches)
        return {
            "decision": decision,
            "incumbent": incumbent,
            "winner": winner,
            "requested": winner or incumbent,
            "effective": worded(self._effective, self._options),
            "objective": self.objective,
            "effect": {name: self._effect[name] for name in ("median", "low", "high")}
            if self._effect
            else None,
            "detectable_effect": self.calibration.get("detectable_effect"),
            "other_metrics": self._others,
            "trials": len(results.candidates) if results else 0,
            "blocks": results.blocks if results else 0,
            "pairs": results.pairs if results else 0,
            "restarts": 0,
            "failed_requests": int(max(self._errors, self._failed)),
            "slo_violation_seconds": self.violation_seconds(),
            "switch_seconds": {
                "p50": quantile(switches, 0.5) if switches else None,
                "p99": quantile(switches, 0.99) if switches else None,
            },
            "traffic": {**self.fingerprint, "requests": self._requests, "seconds": now - self.started},
            "calibration": self.calibration,
            "skipped_priors": self.skipped_priors,
            "reasons": self.reasons,
        }
