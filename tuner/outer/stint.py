"""One stint: what serves between two restarts, looked at until it has warmed up, then measured in windows."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from change.engine import EngineState
from tuner import calibration, guard
from tuner.limits import pooled
from tuner.messages import Observation
from tuner.objective import OTHERS, Scale
from tuner.settings import Slo
from tuner.switchback import Arm, ScoredWindow, Switchback, Timing
from tuner.window import quantile

WINDOWS = 12
LEAST_WINDOWS = 4
LEAST_WINDOW_SECONDS = 10.0
WARM_UP_SECONDS = 120.0
"""A server that just started is slower than it will be: nothing is measured before."""
LOOK_SECONDS = 900.0
"""A look that has not seen enough requests by then, or whose queue is still too long, is given up."""
UNREACHABLE_SECONDS = 120.0


@dataclass(slots=True)
class Usual:
    """The incumbent's own range, learned in its stints: what a candidate's stint is guarded by."""

    baseline: guard.Baseline
    queue: deque[float]

    @classmethod
    def of(cls, slo: Slo) -> Usual:
        """Nothing known yet."""
        return cls(guard.Baseline(slo), deque(maxlen=3600))

    def learn(self, windows: Sequence[ScoredWindow], waiting: Sequence[float]) -> None:
        """Take in one stint of the incumbent."""
        for window in windows:
            self.baseline.add(window.records)
        self.queue.extend(waiting)


@dataclass(frozen=True, slots=True)
class Score:
    """What one stint showed: mean of its windows on the objective's scale, its standard error, and when (Unix s)."""

    time: float
    score: float
    error: float
    others: Mapping[str, float]
    """Every other metric: mean of the logarithms, better is higher."""


class Stint:
    """Feed it an observation a second until `over`; then `windows` hold what was measured.

    `usual` guards a candidate; None lets the incumbent be measured as it is.
    """

    def __init__(
        self, state: EngineState, slo: Slo, minutes: float, usual: Usual | None, max_temperature: float
    ) -> None:
        self.over = False
        self.alarm: str | None = None
        """Why what serves must go at once."""
        self.trouble: str | None = None
        """Why nothing could be measured."""
        self.restarted = False
        """Whether the engine is another one than at the start."""
        self.windows: list[ScoredWindow] = []
        self.waiting: list[float] = []
        self.look: calibration.FirstLook | None = None
        self.ready = False
        """Whether it has warmed up and seen enough to be measured."""
        self._awaits = False
        self._state = state
        self._slo = slo
        self._seconds = minutes * 60.0
        self._usual = usual
        self._max_temperature = max_temperature
        self._arm = Arm(None, dict(state.values))
        self._bench = Switchback(self._arm.values, slo, 30.0, LOOK_SECONDS)
        self._began: float | None = None
        self._measured_since: float | None = None
        self._watch: guard.Watch | None = None
        self._looked: list[float] = []
        self._unknown = 0
        self._gone_since: float | None = None

    def step(self, now: float, seen: Observation) -> None:
        """Advance by one observation."""
        if self.over:
            return
        if self._began is None:
            self._began = now
            self._bench.begin(now, self._state.epoch)
        if not self._same_engine(now, seen):
            return
        self._bench.step(now, seen)
        if self._measured_since is None:
            self._look(now, seen)
            return
        self._guard(seen)
        if seen.waiting is not None:
            self.waiting.append(seen.waiting)
        self.windows.extend(self._bench.scored(now))
        if self._bench.idle and not self._bench.settling:
            self._end()

    def await_other(self) -> None:
        """Measure nothing before `measure` is called: another engine is to be measured at the same time."""
        self._awaits = True

    def measure(self, now: float) -> None:
        """Begin with the windows, once it is ready."""
        assert self._began is not None, "a look begins with the first step"
        seconds = now - self._began
        records = [record for record in self._bench.book.records if record.arrival >= self._began]
        self.look = calibration.first_look(records, seconds, self._looked)
        window = max(LEAST_WINDOW_SECONDS, self._seconds / WINDOWS - calibration.MIN_WASHOUT_SECONDS)
        self._bench.measure_by(Timing(calibration.MIN_WASHOUT_SECONDS, window, 1.3 * self.look.e2e_p99 + 1.0))
        self._bench.tokens_per_second = self.look.prefill_tokens_per_second
        self._bench.plan(1, [self._arm] * WINDOWS)
        self._measured_since = now
        self._watch = guard.Watch(self._slo, self._state.epoch)

    def score(self, scale: Scale) -> Score | None:
        """What it showed on a scale; None where too few windows can tell."""
        valid = [window for window in self.windows if window.valid]
        scores = [found for window in valid if (found := scale.score(window.metrics)) is not None]
        if len(scores) < LEAST_WINDOWS:
            return None
        others = {}
        for name, direction in OTHERS.items():
            values = [w.metrics[name] for w in valid if w.metrics.get(name, 0) > 0]
            if values:
                sign = 1.0 if direction == "max" else -1.0
                others[name] = sign * mean(math.log(value) for value in values)
        middle = (valid[0].interval.start + valid[-1].interval.end) / 2.0
        return Score(middle, mean(scores), stdev(scores) / math.sqrt(len(scores)), others)

    def over_limits(self, usual: Mapping[str, float], max_regression: float) -> str | None:
        """The first SLO limit that it broke over all its windows, beyond what the incumbent (`usual`) breaks too."""
        valid = [window for window in self.windows if window.valid]
        for limit in self._slo.limits:
            figure = pooled(valid, limit)
            own = usual.get(limit.key, 0.0)
            bound = limit.seconds if own <= limit.seconds else own * (1 + max_regression)
            if figure is not None and figure > bound:
                return f"{limit.key} is {figure:.3g} s, over {bound:.3g} s"
        return None

    def limited(self) -> dict[str, float]:
        """The limited quantiles over all its windows."""
        valid = [window for window in self.windows if window.valid]
        found = {limit.key: pooled(valid, limit) for limit in self._slo.limits}
        return {key: value for key, value in found.items() if value is not None}

    def _end(self, trouble: str | None = None) -> None:
        self.over, self.trouble = True, trouble
        self._bench.clear()

    def _same_engine(self, now: float, seen: Observation) -> bool:
        """Whether the engine is still the one whose stint this is, as far as is known."""
        self._unknown = 0 if seen.page is not None else self._unknown + 1
        if seen.state is None:
            since = self._gone_since = now if self._gone_since is None else self._gone_since
            if now - since > UNREACHABLE_SECONDS:
                self._end(f"the engine was out of reach for {UNREACHABLE_SECONDS:.0f} s")
            return not self.over
        self._gone_since = None
        if seen.state.boot_id != self._state.boot_id:
            self.restarted = True
            self._end("the engine was restarted by somebody else")
        elif seen.state.epoch != self._state.epoch:
            self._end("somebody else changed the engine")
        return not self.over

    def _look(self, now: float, seen: Observation) -> None:
        began = self._began
        assert began is not None, "a look begins with the first step"
        seconds = now - began
        if seen.waiting is not None:
            self._looked.append(seen.waiting)
        if self.ready:
            return
        if seconds > LOOK_SECONDS:
            calm = "its queue did not come back to the incumbent's range" if not self._calm(seen) else None
            few = f"too few requests finished in {seconds / 60:.0f} minutes"
            self.alarm = calm if self._usual is not None else None
            self._end(calm or few)
            return
        records = [record for record in self._bench.book.records if record.arrival >= began]
        if seconds < WARM_UP_SECONDS or not calibration.seen_enough(records, seconds) or not self._calm(seen):
            return
        self.ready = True
        if not self._awaits:
            self.measure(now)

    def _calm(self, seen: Observation) -> bool:
        """Whether the queue that the restart left behind has been worked off."""
        if self._usual is None or not self._usual.queue or seen.waiting is None:
            return True
        return seen.waiting <= max(guard.QUEUE_FLOOR, 1.5 * quantile(sorted(self._usual.queue), 0.95))

    def _guard(self, seen: Observation) -> None:
        if self._usual is None or self._watch is None:
            return
        since = self._measured_since or 0.0
        records = [r for r in (seen.page.records if seen.page else ()) if r.arrival >= since]
        self._watch.see(records, seen.errors)
        serving = guard.Serving(seen.waiting, seen.temperature, self._unknown, seen.alert)
        longest = max(self._usual.queue, default=math.inf)
        self.alarm = self._watch.verdict(serving, self._usual.baseline, longest, self._max_temperature)
        if self.alarm is not None:
            self._end(self.alarm)
