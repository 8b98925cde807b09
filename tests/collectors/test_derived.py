"""The collector of derived figures keeps its paces, survives a defect and gives rows of the table."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator

import pytest

from bench.derived_cost import NOW as FULL_NOW
from bench.derived_cost import full_history
from collectors.derived import DerivedCollector, Finding, all_findings
from collectors.history import History
from collectors.metrics import METRICS
from collectors.metrics.derived import DERIVED_ROWS
from collectors.runner import Runner
from collectors.sample import CollectorError, Sample
from tests.collectors.derived.stories import ENGINE, NOW, every

NAME = "trimtab_engine_kv_free_ratio"


def constant(value: float) -> Finding:
    def derive(history: History, now: float) -> Iterator[Sample]:
        yield Sample(NAME, value, now, ENGINE)

    return Finding(f"constant {value}", derive)


def defective(history: History, now: float) -> Iterator[Sample]:
    yield Sample(NAME, 0.0, now, ENGINE)
    raise ZeroDivisionError("float division by zero")


def collect(collector: DerivedCollector, now: float = NOW) -> list[Sample]:
    return asyncio.run(collector.collect(now))


def test_nothing_known_is_a_good_reading_without_samples() -> None:
    history = History()
    runner = Runner([DerivedCollector(history)], history)
    assert asyncio.run(runner.once(NOW)) == []
    assert [health.success for health in runner.health()] == [True]


def test_a_slow_figure_keeps_its_value_and_its_time_until_it_is_due() -> None:
    asked: list[float] = []

    def derive(history: History, now: float) -> Iterator[Sample]:
        asked.append(now)
        yield Sample(NAME, now, now, ENGINE)

    collector = DerivedCollector(History(), findings=(Finding("slow", derive, 30.0),))
    given = [collect(collector, NOW + seconds)[0].time - NOW for seconds in (0.0, 10.0, 20.0, 30.0, 40.0)]
    assert given == [0.0, 0.0, 0.0, 30.0, 30.0]
    assert asked == [NOW, NOW + 30.0]


def test_a_clock_that_was_set_back_does_not_keep_a_figure_for_ever() -> None:
    asked: list[float] = []

    def derive(history: History, now: float) -> Iterator[Sample]:
        asked.append(now)
        yield from ()

    collector = DerivedCollector(History(), findings=(Finding("slow", derive, 30.0),))
    collect(collector, NOW)
    collect(collector, NOW - 3600.0)
    assert asked == [NOW, NOW - 3600.0]


def test_a_kept_figure_stays_live_in_the_history() -> None:
    history = History()
    slow = Finding("slow", constant(0.5).derive, 120.0)
    runner = Runner([DerivedCollector(history, findings=(slow,))], history)
    for seconds in range(0, 300, 10):
        asyncio.run(runner.once(NOW + seconds))
        assert history.series(NAME) == [ENGINE]


def test_much_work_is_spread_over_readings_and_stands_as_one() -> None:
    def derive(history: History, now: float) -> Iterator[Sample]:
        for number in range(3):
            yield Sample(NAME, now, now, (("engine", str(number)),))

    slow = (Finding("slow", derive, 30.0), Finding("slower", constant(0.5).derive, 30.0))
    # No time at all: each reading does one piece of one finding, and they take turns.
    collector = DerivedCollector(History(), findings=(constant(0.1), *slow), reading_seconds=1e-9)
    assert len(collect(collector)) == 5, "the first time all is done"
    given = [collect(collector, NOW + 30.0 + seconds) for seconds in range(0, 80, 10)]
    times = [[sample.time - NOW for sample in samples] for samples in given]
    assert [quick for quick, *_ in times] == [30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0]
    assert [three for _, *three, _ in times] == [*([[0.0] * 3] * 6), *([[30.0] * 3] * 2)], "none before all"
    assert [one for *_, one in times] == [0.0, 0.0, 0.0, 40.0, 40.0, 40.0, 40.0, 80.0]


def test_a_defect_in_one_figure_is_noted_and_the_others_stand() -> None:
    collector = DerivedCollector(History(), findings=(Finding("broken", defective), constant(0.5)))
    assert [sample.value for sample in collect(collector)] == [0.5], "nothing of the broken one is used"
    assert collector.notes == ("broken: defect: ZeroDivisionError: float division by zero",)


def test_a_defect_that_is_over_is_no_longer_noted() -> None:
    broken = True

    def derive(history: History, now: float) -> Iterator[Sample]:
        if broken:
            raise ValueError("bad")
        yield Sample(NAME, 1.0, now, ENGINE)

    collector = DerivedCollector(History(), findings=(Finding("weak", derive), constant(0.5)))
    collect(collector)
    assert len(collector.notes) == 1
    broken = False
    assert len(collect(collector, NOW + 10.0)) == 2
    assert not collector.notes


def test_if_all_are_defective_the_source_fails() -> None:
    collector = DerivedCollector(History(), findings=(Finding("broken", defective),))
    with pytest.raises(CollectorError, match="no figure could be derived: broken: defect: ZeroDivisionError"):
        collect(collector)


def test_the_event_loop_has_its_turns_while_much_is_derived() -> None:
    def derive(history: History, now: float) -> Iterator[Sample]:
        for _ in range(8):
            sum(range(1_000_000))
            yield Sample(NAME, 1.0, now, ENGINE)

    async def scenario() -> int:
        turns, done = 0, False

        async def count() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await DerivedCollector(History(), findings=(Finding("long", derive),)).collect(NOW)
        done = True
        await counting
        return turns

    assert asyncio.run(scenario()) >= 4


def test_long_work_leaves_the_event_loop_alone() -> None:
    threads: list[int] = []

    def work() -> list[Sample]:
        threads.append(threading.get_ident())
        return [Sample(NAME, 1.0, NOW, ENGINE)]

    def derive(history: History, now: float) -> Iterator[Callable[[], list[Sample]]]:
        yield work

    assert len(collect(DerivedCollector(History(), findings=(Finding("long", derive),)))) == 1
    assert threads != [threading.get_ident()]


def test_every_row_of_the_table_is_given_with_the_labels_it_says() -> None:
    history = full_history(chips=4, engines=2, draw=random.Random(2))
    for time in every(10.0, 200.0, FULL_NOW):
        history.add([Sample("npu_throttled", 0.0, time, (("chip", "9"), ("name", "910B"), ("npu", "9")))])
    samples = collect(DerivedCollector(history), FULL_NOW)
    inputs = {"npu_allocator_reserved_bytes", "npu_allocator_allocated_bytes"}
    assert {sample.name for sample in samples} == {row.name for row in DERIVED_ROWS} - inputs
    for sample in samples:
        assert {name for name, _ in sample.labels} <= set(METRICS[sample.name].labels)
        if sample.name.endswith("_ratio") and sample.name not in ("npu_skew_ratio", "npu_busier_ratio"):
            assert isinstance(sample.value, float) and 0.0 <= sample.value <= 1.0
    sources = {dict(sample.labels).get("source") for sample in samples}
    assert {"dcmi", "heuristic"} <= sources


def test_two_looks_at_one_history_say_the_same() -> None:
    history = full_history(chips=2, engines=1, draw=random.Random(3))
    first = collect(DerivedCollector(history), FULL_NOW)
    assert first == collect(DerivedCollector(history), FULL_NOW)


def test_names_of_findings_are_told_apart() -> None:
    names = [finding.name for finding in all_findings()]
    assert len(set(names)) == len(names)
    assert all(finding.every_seconds < 300.0 for finding in all_findings()), "a series goes stale after 300 s"
