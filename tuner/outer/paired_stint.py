"""One stint of a canary and of the engine beside it: both warmed up, then measured in windows at the same time."""

from __future__ import annotations

from change.engine import EngineState
from tuner.objective import Scale
from tuner.outer.canary import beside
from tuner.outer.fairness import unfair
from tuner.outer.messages import Both
from tuner.outer.settings import OuterSettings
from tuner.outer.standings import Standings
from tuner.outer.stint import Score, Stint, Usual
from tuner.settings import Slo, TuneSettings


class PairedStint(Stint):
    """The canary's stint with its neighbour's beside it; `watch` it a second at a time until `both_over`.

    Its score is the canary's difference from its neighbour, and nothing is scored where their traffic differs.
    """

    def __init__(
        self,
        canary: EngineState,
        base: EngineState,
        slo: Slo,
        minutes: float,
        usual: Usual | None,
        base_usual: Usual | None,
        max_temperature: float,
    ) -> None:
        super().__init__(canary, slo, minutes, usual, max_temperature)
        self.base = Stint(base, slo, minutes, base_usual, max_temperature)
        self.unfair: str | None = None
        """Why what they served cannot be compared."""
        for stint in (self, self.base):
            stint.await_other()

    @property
    def both_over(self) -> bool:
        """Whether nothing more comes of it."""
        return (self.over and self.base.over) or any(
            stint.alarm or stint.trouble for stint in (self, self.base)
        )

    def watch(self, now: float, seen: Both) -> None:
        """Advance both by one observation each."""
        self.step(now, seen.canary)
        self.base.step(now, seen.base)
        if self._measured_since is None and self.ready and self.base.ready:
            self.measure(now)
            self.base.measure(now)

    def end(self) -> None:
        """Take over what went wrong beside the canary, and say if the two served different users."""
        base = self.base
        self.alarm = self.alarm or (f"the engine beside the canary: {base.alarm}" if base.alarm else None)
        if self.trouble is None and base.trouble is not None:
            self.trouble = f"the engine beside the canary: {base.trouble}"
        if self.trouble is None and self.alarm is None:
            self.unfair = self.trouble = unfair(self.windows, base.windows)

    def score(self, scale: Scale) -> Score | None:
        """What the canary showed against its neighbour; None where too few pairs can tell."""
        return beside(self.windows, self.base.windows, scale)

    def level(self, scale: Scale) -> float | None:
        """What its neighbour showed by itself, on the scale."""
        found = self.base.score(scale)
        return None if found is None else found.score


class PairedStandings(Standings):
    """Differences of a canary from its neighbour, of which effects are ratios of what the neighbour serves."""

    def __init__(self, settings: TuneSettings, outer: OuterSettings, slo: Slo, usual_sd: float) -> None:
        super().__init__(settings, outer, slo, usual_sd)
        self.base_usual = Usual.of(slo)
        self._levels: list[float] = []

    def own(self, stint: Stint) -> str | None:
        """Take in a stint of the canary on its own settings."""
        assert isinstance(stint, PairedStint), "a canary is measured beside its neighbour"
        if (trouble := super().own(stint)) is not None:
            return trouble
        self.base_usual.learn(stint.base.windows, stint.base.waiting)
        if self.scale is not None and (level := stint.level(self.scale)) is not None:
            self._levels.append(level)
        return None

    @property
    def reference(self) -> float:
        """Mean score of the engine beside the canary."""
        return sum(self._levels) / len(self._levels)

    @property
    def apart(self) -> float:
        """How the two differ with the same settings: the canary's mean difference on its own."""
        return super().reference
