"""What an outer loop has measured so far, and what that says of each candidate against the incumbent."""

from __future__ import annotations

import math
from typing import Any

from tuner.limits import Limits
from tuner.objective import Scale, scale
from tuner.outer.alternation import USUAL_SD, Comparison, Served, compare, other_loss
from tuner.outer.settings import OuterSettings
from tuner.outer.stint import Score, Stint, Usual
from tuner.settings import Slo, TuneSettings

NOT_MEASURED = Comparison(-math.inf, math.inf, 0.0, 0)


class Standings:
    """Stints in order, under the objective that the first of the incumbent settled."""

    def __init__(
        self, settings: TuneSettings, outer: OuterSettings, slo: Slo, usual_sd: float = USUAL_SD
    ) -> None:
        self.usual = Usual.of(slo)
        self.scale: Scale | None = None
        self._limits: Limits | None = None
        self._settings = settings
        self._outer = outer
        self._slo = slo
        self._usual_sd = usual_sd
        self._limited: dict[str, float] = {}
        self._stints: list[Served] = []

    def own(self, stint: Stint) -> str | None:
        """Take in a stint of the incumbent; why it could not be measured, or None."""
        if self.scale is None and stint.look is not None:
            saturated = stint.look.saturated
            self.scale = scale(self._settings.objective, self._slo, saturated=saturated)
            self._limits = Limits(self.scale, self._slo, self._settings.max_regression, saturated)
        score = self.score(stint)
        if score is None:
            return stint.trouble or "too few of its windows can be measured"
        self.usual.learn(stint.windows, stint.waiting)
        self._limited = stint.limited()
        self._stints.append(Served(0, score))
        return None

    def trial(self, number: int, stint: Stint) -> str | None:
        """Take in a stint of a candidate; why it cannot stay in the race, or None."""
        score = self.score(stint)
        reason = stint.alarm or stint.trouble
        if score is None:
            return reason or "too few of its windows can be measured"
        reason = reason or stint.over_limits(self._limited, self._settings.max_regression)
        if reason is None:
            self._stints.append(Served(number, score))
        return reason

    def forget_last(self) -> None:
        """Leave the last stint out: the same candidate serves with other hot values now."""
        self._stints.pop()

    def score(self, stint: Stint) -> Score | None:
        """What one stint showed, None if it cannot tell."""
        return None if self.scale is None or stint.trouble else stint.score(self.scale)

    @property
    def reference(self) -> float:
        """Mean score of the incumbent."""
        own = [served.score.score for served in self._stints if served.config == 0]
        return sum(own) / len(own)

    @property
    def least(self) -> float:
        """The gain that counts as the least effect worth a promotion."""
        assert self.scale is not None, "the incumbent's first stint settles the scale"
        return self.scale.margin(self._outer.min_effect, self.reference)

    def compared(self, number: int) -> Comparison:
        """A candidate against the incumbent; of one never measured nothing is hoped."""
        return compare(self._stints, number, self._usual_sd) or NOT_MEASURED

    def hopeful(self, number: int) -> bool:
        """Whether a candidate may still turn out to gain enough."""
        found = self.compared(number)
        return found.gain + found.error >= self.least

    def missing(self, number: int) -> str | None:
        """What keeps a candidate from being promoted after its alternations, or None."""
        found = self.compared(number)
        if not found.holds(self.least, self._outer.deviations):
            needed = self.effect(max(self.least, self._outer.deviations * found.sd))
            return f"{self.effect(found.gain):+.1%} in {found.alternations} alternations, {needed:+.1%} are needed"
        assert self._limits is not None, "the incumbent's first stint settles the limits"
        lost = other_loss(self._stints, number, self._limits.judged())
        if lost is not None and lost[1] > math.log1p(self._settings.max_regression):
            return f"{lost[0]} loses {math.expm1(lost[1]):.0%}, more than max_regression allows"
        return None

    def effect(self, gain: float) -> float:
        """Ratio - 1 that a gain means; better is positive."""
        assert self.scale is not None, "the incumbent's first stint settles the scale"
        return self.scale.effect(gain, self.reference) if math.isfinite(gain) else -1.0

    def figures(self, number: int) -> dict[str, Any]:
        """A candidate's effect as it is stored: the interval is two standard errors, no claim of an error rate."""
        found = self.compared(number)
        return {
            "median": self.effect(found.gain),
            "low": self.effect(found.gain - 2 * found.error),
            "high": self.effect(found.gain + 2 * found.error),
            "between_restart_sd": found.sd,
            "alternations": found.alternations,
            "pairs": found.alternations,
            "phase": "alternation",
        }
