"""Putting one config after another in force and measuring each: switch, washout, window, settle, score."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from change.engine import KnobAnswer, RequestRecord, Values
from tuner.messages import Command, Observation, Renew, Switch
from tuner.settings import Slo
from tuner.window import GapCounts, Interval, Metrics, covariates, gap_difference, measure

MAX_WASHOUT = 3.0
"""A washout ends at this many times its usual length even if the queue is still out of the incumbent's range."""
KEPT_SECONDS = 600.0
"""Finished requests are remembered at least as long."""
LOAD_JUMP = 3.0
"""A window that got this many times more or fewer tokens than usual is not comparable with its neighbours."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What one window runs: a trial's number (None is the incumbent) and its values."""

    trial: int | None
    values: Values


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: shortest washout, window length, and how long after its end a window's requests have all finished."""

    washout: float
    window: float
    settle: float


@dataclass(slots=True)
class ScoredWindow:
    """A window with its figures; `reason` says why it is not valid."""

    block: int
    position: int
    arm: Arm
    interval: Interval
    metrics: Metrics
    covariates: Metrics
    records: tuple[RequestRecord, ...]
    gaps: GapCounts
    reason: str | None

    @property
    def valid(self) -> bool:
        """Whether it may be scored."""
        return self.reason is None


@dataclass(slots=True)
class _Settling:
    block: int
    position: int
    arm: Arm
    interval: Interval
    gaps: GapCounts
    context: Metrics
    reason: str | None


@dataclass(slots=True)
class TrafficBook:
    """The requests and token gaps seen lately."""

    keep_seconds: float
    records: deque[RequestRecord] = field(default_factory=deque)
    gaps: dict[int, Mapping[int, int]] = field(default_factory=dict)

    def add(
        self, now: float, records: Sequence[RequestRecord], gaps: Mapping[int, Mapping[int, int]]
    ) -> None:
        """Take a page in; what finished more than `keep_seconds` ago is forgotten."""
        self.records.extend(records)
        self.gaps = dict(gaps)
        while self.records and self.records[0].finish < now - self.keep_seconds:
            self.records.popleft()


class Switchback:
    """Runs arms one after another on one engine.

    It owns which config should be in force; the caller hands it blocks of arms and takes scored windows.
    """

    def __init__(self, incumbent: Values, slo: Slo, lease_seconds: float, keep_seconds: float) -> None:
        """`keep_seconds` is how long a first look remembers finished requests; only then is `timing` known."""
        self.book = TrafficBook(max(KEPT_SECONDS, keep_seconds))
        self.timing = Timing(0.0, math.inf, 0.0)
        self.tokens_per_second = 1000.0
        self.queue_range = float("inf")
        self.unanswered_changes = 0
        """Changes in a row that nobody answered."""
        self._incumbent = dict(incumbent)
        self._slo = slo
        self._lease = lease_seconds
        self._plan: deque[tuple[int, int, Arm]] = deque()
        self._current: tuple[int, int, Arm] | None = None
        self._in_force = Arm(None, self._incumbent)
        self._epoch = 0
        self._applied: float | None = None
        self._start: float | None = None
        self._start_gaps: Mapping[int, int] = {}
        self._start_context: Metrics = {}
        self._spoiled: str | None = None
        self._renewed = 0.0
        self._leased = False
        self._lost = False
        self._planned = False
        self._settling: deque[_Settling] = deque()
        self._waiting_answer = False
        self._usual_tokens: deque[float] = deque(maxlen=9)
        self._watts: list[float] = []
        self._npus: int | None = None

    @property
    def idle(self) -> bool:
        """Whether every planned window has been run (some may still settle)."""
        return self._current is None and not self._plan

    @property
    def settling(self) -> bool:
        """Whether windows wait for their last requests."""
        return bool(self._settling)

    @property
    def measuring(self) -> bool:
        """Whether a window runs and its washout is over, or nothing was ever planned."""
        return self._start is not None if self._current is not None else not self._planned

    @property
    def leased(self) -> bool:
        """Whether what is in force goes away by itself."""
        return self._leased

    @property
    def in_force(self) -> Arm:
        """What the engine should be serving."""
        return self._in_force

    @property
    def epoch(self) -> int:
        """The epoch of what is in force."""
        return self._epoch

    @property
    def applied_at(self) -> float | None:
        """Since when it is in force."""
        return self._applied

    def measure_by(self, timing: Timing) -> None:
        """Measure by `timing` from now on; what windows of that length cannot need is no longer remembered."""
        self.timing = timing
        self.book.keep_seconds = max(KEPT_SECONDS, 4.0 * timing.window + timing.settle)

    def plan(self, block: int, arms: Sequence[Arm]) -> None:
        """Queue one block of windows in the given order."""
        self._planned = True
        self._plan.extend((block, position, arm) for position, arm in enumerate(arms))

    def begin(self, now: float, epoch: int | None) -> None:
        """What is in force serves since `now` for good, with no lease: at the start and after a promotion.

        An epoch that is not known yet is the next one seen.
        """
        self._waiting_answer = self._leased = False
        self._epoch, self._applied = (-1 if epoch is None else epoch), now

    def lease_ran_out(self, now: float, epoch: int) -> None:
        """The engine went back to the incumbent by itself: run the current window again from its switch."""
        if self._current is not None:
            self._plan.appendleft(self._current)
            self._current = None
        self._in_force, self._leased = Arm(None, self._incumbent), False
        self._epoch, self._applied = epoch, now

    def unanswered(self) -> None:
        """Nobody knows whether the switch took hold: the incumbent first, then the current window again."""
        if self._current is not None:
            self._plan.appendleft(self._current)
            self._current = None
        self._in_force, self._leased = Arm(None, self._incumbent), False
        self._waiting_answer, self._lost, self._applied = False, True, None
        self.unanswered_changes += 1

    def answered(self, now: float, answer: KnobAnswer) -> None:
        """The engine took the switch that was asked for."""
        self._waiting_answer = False
        self.unanswered_changes = 0
        self._epoch = answer.epoch
        self._applied = now
        self._renewed = now

    def spoil(self, reason: str) -> None:
        """The running window is not comparable any more."""
        if self._spoiled is None:
            self._spoiled = reason

    def abandon(self, trial: int) -> None:
        """Forget the planned and running windows of a trial."""
        self._plan = deque(item for item in self._plan if item[2].trial != trial)
        if self._current is not None and self._current[2].trial == trial:
            self._current = None

    def clear(self) -> None:
        """Forget everything that is planned or running."""
        self._plan.clear()
        self._current = None

    def restore(self) -> Switch:
        """Put the incumbent back, whatever is running."""
        self._current = None
        return self._switch(Arm(None, self._incumbent))

    def step(self, now: float, seen: Observation) -> list[Command]:
        """Advance; returns what to ask of the engine."""
        if self._epoch < 0 and seen.state is not None:
            self._epoch = seen.state.epoch
        if seen.page is not None:
            self.book.add(seen.page.now, seen.page.records, seen.page.gaps)
        if seen.watts is not None:
            self._watts.append(seen.watts)
        self._npus = seen.npus
        if self._waiting_answer:
            return []
        if self._lost and seen.state is not None:
            self._lost = False
            return [self._switch(Arm(None, self._incumbent))]
        if self._lost:
            return []
        commands: list[Command] = []
        if self._current is None:
            commands = self._begin_next(now)
            if self._waiting_answer or self._current is None:
                return commands + self._renewal(now)
        self._progress(now, seen)
        return commands + self._renewal(now)

    def _begin_next(self, now: float) -> list[Command]:
        if not self._plan:
            return []
        self._current = self._plan.popleft()
        self._start = None
        self._spoiled = None
        arm = self._current[2]
        if dict(arm.values) == dict(self._in_force.values):
            self._in_force = arm
            return []
        return [self._switch(arm)]

    def promote(self, arm: Arm) -> None:
        """A trial's values become the engine's own; the caller asks for it and `answered` follows."""
        self.clear()
        # What was lost before it is of no account any more: the incumbent is not to be put back after it.
        self._lost = False
        self._ask(arm, leased=False)

    def _switch(self, arm: Arm) -> Switch:
        self._ask(arm, leased=arm.trial is not None)
        return Switch(arm.trial, arm.values, self._lease if self._leased else None)

    def _ask(self, arm: Arm, *, leased: bool) -> None:
        self._in_force = arm
        self._leased = leased
        self._waiting_answer = True
        self._applied = None

    def _renewal(self, now: float) -> list[Command]:
        if not self._leased or self._waiting_answer or now - self._renewed < self._lease / 3:
            return []
        self._renewed = now
        return [Renew(self._in_force.values, self._lease)]

    def _progress(self, now: float, seen: Observation) -> None:
        if self._current is None or self._applied is None:
            return
        if seen.page is None:
            self.spoil("request data was lost")
        elif seen.page.lost:
            self.spoil(f"{seen.page.lost} request records were lost")
        if self._start is None:
            waited = now - self._applied
            calm = seen.waiting is None or seen.waiting <= self.queue_range
            if waited >= self.timing.washout and (calm or waited >= MAX_WASHOUT * self.timing.washout):
                self._start = now
                self._start_gaps = dict(self.book.gaps.get(self._epoch, {}))
                self._start_context = {}
                if seen.temperature is not None:
                    self._start_context["temperature_celsius"] = seen.temperature
                self._watts.clear()
            return
        if now - self._start < self.timing.window:
            return
        block, position, arm = self._current
        gaps = gap_difference(self.book.gaps.get(self._epoch, {}), self._start_gaps)
        if self._watts:
            self._start_context["watts"] = sum(self._watts) / len(self._watts)
        interval = Interval(self._epoch, self._applied, self._start, now)
        self._settling.append(
            _Settling(block, position, arm, interval, gaps, self._start_context, self._spoiled)
        )
        self._current = None

    def scored(self, now: float) -> list[ScoredWindow]:
        """Windows whose requests have had time to finish."""
        done: list[ScoredWindow] = []
        while self._settling and now >= self._settling[0].interval.end + self.timing.settle:
            done.append(self._score(self._settling.popleft()))
        return done

    def _score(self, item: _Settling) -> ScoredWindow:
        interval = item.interval
        near = [
            record for record in self.book.records if record.finish >= interval.start - 2 * interval.seconds
        ]
        metrics = measure(near, item.gaps, interval, self._slo)
        self._add_cost(metrics, item.context)
        context = {**covariates(near, interval, self.tokens_per_second), **item.context}
        inside = tuple(
            record
            for record in near
            if record.first_token is not None
            and interval.start <= record.first_token < interval.end
            and record.epoch_first_token == interval.epoch
        )
        reason = item.reason or self._load_jump(context["prompt_tokens_per_second"])
        if reason is None and not inside:
            reason = "no request got its first token in the window"
        return ScoredWindow(
            item.block, item.position, item.arm, interval, metrics, context, inside, item.gaps, reason
        )

    def _add_cost(self, metrics: Metrics, context: Metrics) -> None:
        rate = metrics["output_tokens_per_second"]
        if context.get("watts"):
            metrics["tokens_per_second_per_watt"] = rate / context["watts"]
        if self._npus:
            metrics["tokens_per_second_per_npu"] = rate / self._npus

    def _load_jump(self, tokens: float) -> str | None:
        usual = sorted(self._usual_tokens)
        self._usual_tokens.append(tokens)
        if len(usual) < 5:
            return None
        middle = usual[len(usual) // 2]
        if middle > 0 and not middle / LOAD_JUMP <= tokens <= middle * LOAD_JUMP:
            return f"load jump: {tokens:.0f} prompt tokens/s against {middle:.0f} usual"
        return None
