"""The runner reads every source at its pace; one that fails is absent, said once, and comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from collectors.history import History
from collectors.runner import Runner
from collectors.sample import CollectorError, Sample, labels

POWER = "npu_power_watts"


class Source:
    """A source that does as it is told."""

    def __init__(self, name: str = "source", interval_seconds: float = 1.0) -> None:
        self.name = name
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self.failing: Exception | None = None
        self.before: Callable[[], Awaitable[None]] | None = None
        self.readings = 0
        self.at_once = 0
        self.most_at_once = 0

    async def collect(self, now: float) -> list[Sample]:
        self.readings += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.before is not None:
                await self.before()
            if self.failing is not None:
                raise self.failing
            return [Sample(POWER, float(self.readings), now, labels(npu=self.name))]
        finally:
            self.at_once -= 1


def value(history: History, name: str) -> object:
    sample = history.latest(name)
    return None if sample is None else sample.value


def test_a_reading_goes_to_the_history_with_success_and_duration() -> None:
    history, source = History(), Source()
    runner = Runner([source], history)
    assert runner.health() == []
    samples = asyncio.run(runner.once(10.0))
    assert samples == [Sample(POWER, 1.0, 10.0, labels(npu="source"))]
    assert history.latest(POWER) == samples[0]
    assert history.latest("trimtab_collector_success") == Sample(
        "trimtab_collector_success", 1.0, 10.0, labels(collector="source")
    )
    duration = value(history, "trimtab_collector_duration_seconds")
    assert isinstance(duration, float) and 0.0 <= duration < 5.0
    [health] = runner.health()
    assert (health.success, health.last_success, health.error) == (True, 10.0, None)


def test_a_source_that_fails_is_absent_and_the_others_go_on() -> None:
    history, bad, good = History(), Source("bad"), Source("good")
    runner = Runner([bad, good], history)
    asyncio.run(runner.once(1.0))
    bad.failing = CollectorError("no such device")
    samples = asyncio.run(runner.once(2.0))
    assert [dict(sample.labels)["npu"] for sample in samples] == ["good"]
    assert history.series(POWER) == [labels(npu="good")]
    own = labels(collector="bad")
    assert history.latest("trimtab_collector_success", own) == Sample(
        "trimtab_collector_success", 0.0, 2.0, own
    )
    health = {source.name: source for source in runner.health()}
    assert (health["bad"].success, health["bad"].error, health["bad"].last_success) == (
        False,
        "no such device",
        1.0,
    )
    assert health["good"].success


def test_only_the_first_failure_and_the_recovery_are_logged() -> None:
    source = Source()
    runner = Runner([source], History())
    with capture_logs() as logs:
        asyncio.run(runner.once(0.0))
        source.failing = CollectorError("gone")
        for second in range(1, 5):
            asyncio.run(runner.once(float(second)))
        source.failing = None
        for second in range(5, 8):
            asyncio.run(runner.once(float(second)))
    assert [(log["event"], log["log_level"], log["source"]) for log in logs] == [
        ("source failed", "warning", "source"),
        ("source recovered", "info", "source"),
    ]
    assert logs[0]["reason"] == "gone"
    assert logs[1]["failed_readings"] == 4


def test_unreadable_parts_are_told_once_counted_and_listed() -> None:
    history, source = History(), Source()
    runner = Runner([source], history)
    source.notes = ("line 7: Health is '0K'",)
    with capture_logs() as logs:
        for second in range(3):
            asyncio.run(runner.once(float(second)))
        assert value(history, "trimtab_collector_notes") == 1.0
        assert runner.health()[0].detail == {"note 1": "line 7: Health is '0K'"}
        source.notes = ()
        asyncio.run(runner.once(3.0))
    assert [log["event"] for log in logs] == ["source partly unreadable", "source fully readable again"]
    assert value(history, "trimtab_collector_notes") == 0.0
    assert runner.health()[0].detail == {}


def test_a_source_that_hangs_is_cut_off_at_its_time_out() -> None:
    source, other = Source("slow"), Source("other")
    source.before = asyncio.Event().wait  # type: ignore[assignment]
    runner = Runner([source, other], History(), timeout_seconds=30.0, timeouts={"slow": 0.05})
    samples = asyncio.run(runner.once(0.0))
    assert [dict(sample.labels)["npu"] for sample in samples] == ["other"]
    assert runner.health()[0].error == "no answer within 0.05 s"


def test_a_defect_in_a_collector_does_not_blind_the_others() -> None:
    bad, good = Source("bad"), Source("good")
    bad.failing = ZeroDivisionError("oh")
    runner = Runner([bad, good], History())
    with capture_logs() as logs:
        for second in range(3):
            assert len(asyncio.run(runner.once(float(second)))) == 1
    assert runner.health()[0].error == "defect in the collector: ZeroDivisionError: oh"
    assert [log["event"] for log in logs] == ["collector defect", "source failed"]


def test_readings_of_one_source_never_overlap() -> None:
    source = Source()

    async def scenario() -> None:
        runner = Runner([source], History())
        source.before = lambda: asyncio.sleep(0)
        await asyncio.gather(*(runner.once(float(second)) for second in range(5)))

    asyncio.run(scenario())
    assert (source.readings, source.most_at_once) == (5, 1)


def test_one_source_may_be_read_alone() -> None:
    first, second = Source("first"), Source("second")
    runner = Runner([first, second], History())
    asyncio.run(runner.once(0.0, "second"))
    assert (first.readings, second.readings) == (0, 1)
    with pytest.raises(ValueError, match="no source 'third'; there are first, second"):
        asyncio.run(runner.once(0.0, "third"))


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer: seconds pass in no time, and exactly."""

    def __init__(self) -> None:
        super().__init__()
        self.virtual = 0.0

    def time(self) -> float:
        return getattr(self, "virtual", 0.0)

    def _run_once(self) -> None:
        timers = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        if not self._ready and timers:  # type: ignore[attr-defined]
            self.virtual = max(self.virtual, min(timers))
        super()._run_once()  # type: ignore[misc]


def readings_over(
    seconds: float, sources: Sequence[Source], at: dict[float, Callable[[], None]]
) -> list[list[float]]:
    """When each source was read during so many seconds of a virtual clock."""
    loop = VirtualLoop()
    times: list[list[float]] = [[] for _ in sources]
    for source, seen in zip(sources, times, strict=True):

        async def note(seen: list[float] = seen) -> None:
            seen.append(loop.time())

        source.before = note

    async def scenario() -> None:
        stop = asyncio.Event()
        for when, act in at.items():
            loop.call_at(when, act)
        loop.call_at(seconds, stop.set)
        await Runner(sources, History(), clock=loop.time).run(stop)

    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()
    return times


def test_each_source_is_read_at_its_own_interval() -> None:
    fast, slow = readings_over(10.5, [Source("fast", 1.0), Source("slow", 5.0)], {})
    assert fast == pytest.approx([float(second) for second in range(11)])
    assert slow == pytest.approx([0.0, 5.0, 10.0])


def test_a_failing_source_is_read_ever_less_often_and_at_full_pace_once_it_is_back() -> None:
    source = Source("engine", 1.0)
    source.failing = CollectorError("connection refused")

    def recover() -> None:
        source.failing = None

    [times] = readings_over(50.0, [source], {36.0: recover})
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps[:6] == pytest.approx([2.0, 4.0, 8.0, 10.0, 10.0, 10.0]), "at most ten intervals"
    assert gaps[6:] == pytest.approx([1.0] * 5)


def test_a_slow_source_backs_off_to_a_minute_at_most() -> None:
    source = Source("npu_smi", 10.0)
    source.failing = CollectorError("no answer")
    [times] = readings_over(300.0, [source], {})
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == pytest.approx([20.0, 40.0, 60.0, 60.0, 60.0])


def test_two_sources_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name: twin, twin"):
        Runner([Source("twin"), Source("twin")], History())
    with pytest.raises(ValueError, match="unknown collector: other"):
        Runner([Source("one")], History(), timeouts={"other": 1.0})
