"""The watch stream is followed as a real child that works, stops, babbles, dies, is silent or is not there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from collectors.history import History
from collectors.npu_smi.npu_smi import NpuSmiCollector
from collectors.npu_smi.npu_smi_watch import NpuSmiWatchCollector
from collectors.npu_smi.program import NpuSmi
from collectors.runner import Runner
from collectors.sample import CollectorError, Labels, Sample, labels
from tests.collectors.programs import alive, program, wait_until

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"
NOW = 1_700_000_000.0
HEADER = "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)     AI Core(%)  Memory BW(%)"
FIRST = labels(npu="0", chip="0", name="910B4-1")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def npu_smi(folder: Path, watch: str, table: str = f"cat {FIXTURES}/b_910b.txt") -> NpuSmi:
    """A program whose table and whose watch are these lines of shell."""
    body = (
        f'echo $$ >> {folder}/pids\ncase "$*" in\n"info watch -s ptaicmbnu") {watch} ;;\n*) {table} ;;\nesac'
    )
    return NpuSmi([program(folder, body)])


def play(
    tested: NpuSmi, story: Callable[[NpuSmiWatchCollector, Clock], Awaitable[None]], **options: float
) -> None:
    clock = Clock()
    collector = NpuSmiWatchCollector(tested, clock=clock, **options)

    async def whole() -> None:
        await story(collector, clock)

    asyncio.run(whole())


async def until(collector: NpuSmiWatchCollector, clock: Clock, name: str, value: float) -> None:
    """Collect until the first chip reads so."""
    async with asyncio.timeout(10):
        found: dict[str, object] = {}
        while found.get(name) != value:
            found = latest(await collector.collect(clock.now))
            await asyncio.sleep(0.01)


def latest(samples: list[Sample]) -> dict[str, object]:
    return {sample.name: sample.value for sample in samples if sample.labels == FIRST}


def test_rows_become_samples_as_they_come_from_one_child(tmp_path: Path) -> None:
    rows = f"echo '{HEADER}'; echo '0 0 88.5 41 63 37'; cat {tmp_path}/more; sleep 60"
    (tmp_path / "more").touch()

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        found = latest(await collector.collect(NOW))
        assert found["npu_power_watts"] == 88.5
        assert found["npu_hbm_bandwidth_usage_ratio"] == 0.37
        assert found["npu_mem_bandwidth"] == 37.0
        clock.now += 1.0
        again = await collector.collect(clock.now)
        assert {sample.time for sample in again} == {NOW}, "a row has the time it came at"
        assert collector.notes == ()

    play(npu_smi(tmp_path, rows), story)
    _table, watch = (tmp_path / "pids").read_text().split()
    assert not alive(int(watch)), "it ends with the loop"


def test_the_newest_row_counts(tmp_path: Path) -> None:
    (tmp_path / "fifo").touch()
    rows = f"echo '{HEADER}'; tail -n +1 -f {tmp_path}/fifo"

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        with (tmp_path / "fifo").open("a") as rows:
            print("0 0 88.5 41 63 37", file=rows, flush=True)
            await until(collector, clock, "npu_temperature_celsius", 41.0)
            clock.now += 1.0
            print("0 0 88.5 42 63 37\n1 0 1.0 2", file=rows, flush=True)
            await until(collector, clock, "npu_temperature_celsius", 42.0)
            print("0 0 88.5 43 63 37", file=rows, flush=True)
            await until(collector, clock, "npu_temperature_celsius", 43.0)
        assert len(collector.notes) == 1 and "not a row of the watch: 1 0 1.0 2" in collector.notes[0]

    play(npu_smi(tmp_path, rows), story)


def test_the_table_leaves_to_the_watch_what_it_gives_and_takes_it_back(tmp_path: Path) -> None:
    # The first child ends when it is told, the next ones at once.
    os.mkfifo(tmp_path / "end")
    rows = (
        f"[ -p {tmp_path}/end ] || exit 1; echo '{HEADER}'; echo '0 0 70.5 41 63 37'; read x < {tmp_path}/end"
    )
    tested = npu_smi(tmp_path, f"{rows}; rm {tmp_path}/end; exit 1")

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        history = History()
        runner = Runner([NpuSmiCollector(tested), collector], history, clock=clock)

        async def read(name: str, later: float = 1.0) -> object:
            clock.now += later
            await runner.once(clock.now, name)
            found = history.latest("npu_power_watts", labels(npu="0"))
            return None if found is None else found.value

        of_table = await read("npu_smi")
        assert of_table not in (None, 70.5)
        await read("npu_smi_watch")
        for source in ("npu_smi", "npu_smi_watch", "npu_smi"):
            assert await read(source) == 70.5, "the table neither overwrites nor ends it"
        (tmp_path / "end").write_text("now\n")
        async with asyncio.timeout(10):
            value: object = 70.5
            while value is not None:
                await asyncio.sleep(0.01)
                value = await read("npu_smi_watch", later=0.0)
        for _ in range(3):
            assert await read("npu_smi") == of_table
            assert await read("npu_smi_watch") == of_table, "a failing source does not end what another gives"

    play(tested, story)


@pytest.mark.parametrize(
    "said",
    [
        "echo 'Error parameter of watch'; echo 'Usage: npu-smi info <-l>'; exit 1",
        "echo 'This device does not support querying watch info.'; exit 193",
    ],
)
def test_without_a_watch_it_says_so_and_asks_no_more(tmp_path: Path, said: str) -> None:
    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        for _ in range(3):
            assert await collector.collect(clock.now) == []
            assert len(collector.notes) == 1
            assert "has no `info watch`, the table alone is read" in collector.notes[0]
            clock.now += 1000.0

    play(npu_smi(tmp_path, said), story)
    assert len((tmp_path / "pids").read_text().split()) == 2, "one table, one watch"


def test_a_child_that_dies_is_started_again_later_each_time(tmp_path: Path) -> None:
    rows = f"echo '{HEADER}'; echo '0 0 88.5 41 63 37'; echo 'failed. ret is -8012'; exit 180"

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        starts = []
        for second in range(40):
            clock.now = NOW + second
            before = len((tmp_path / "pids").read_text().split()) if second else 0
            try:
                await collector.collect(clock.now)
                async with asyncio.timeout(10):
                    while True:
                        await collector.collect(clock.now)
                        await asyncio.sleep(0.005)
            except CollectorError as failure:
                assert "info watch ended (exit code 180)" in str(failure)
                assert "-8012: the device is not ready" in str(failure)
            if len((tmp_path / "pids").read_text().split()) > before:
                starts.append(second)
        assert starts == [0, 2, 6, 14, 30]

    play(npu_smi(tmp_path, rows), story)


def test_a_silent_child_is_killed_with_what_it_started(tmp_path: Path) -> None:
    rows = f"sleep 60 & echo $! > {tmp_path}/child; echo '{HEADER}'; echo '0 0 88.5 41 63 37'; wait"

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        await collector.collect(clock.now)
        clock.now += 14.0
        assert await collector.collect(clock.now)
        clock.now += 2.0
        with pytest.raises(CollectorError, match="no row for 15 s"):
            await collector.collect(clock.now)
        child = int((tmp_path / "child").read_text())
        await asyncio.to_thread(wait_until, lambda: not alive(child))

    play(npu_smi(tmp_path, rows), story)


def test_a_child_that_never_says_a_row(tmp_path: Path) -> None:
    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        with pytest.raises(CollectorError, match=r"no row for 0\.3 s"):
            await collector.collect(clock.now)

    play(npu_smi(tmp_path, "sleep 60"), story, silent_seconds=0.3)


def test_a_chip_that_is_no_longer_printed_goes(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("0 0 88.5 41 63 37\n5 0 70.0 40 1 1\n")
    rows = f"echo '{HEADER}'; tail -n +1 -f {tmp_path}/rows"

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        async with asyncio.timeout(10):
            seen: set[Labels] = set()
            while len(seen) < 2:
                seen = {sample.labels for sample in await collector.collect(clock.now)}
                await asyncio.sleep(0.01)
        clock.now += 20.0
        with (tmp_path / "rows").open("a") as more:
            print("0 0 88.5 44 63 37", file=more, flush=True)
        await asyncio.sleep(0.3)
        assert {sample.labels for sample in await collector.collect(clock.now)} == {FIRST}

    play(npu_smi(tmp_path, rows), story)


@pytest.mark.parametrize(
    "babble",
    [
        "head -c 3000000 /dev/urandom",
        "head -c 100000000 /dev/zero",
        "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo",
        "head -c 3000000 /dev/urandom >&2",
        "printf '\\377\\376|\\200\\n'",
    ],
)
def test_babble_before_and_between_rows_is_survived_in_bounded_memory(tmp_path: Path, babble: str) -> None:
    rows = [f"{babble}; echo", f"echo '{HEADER}'; echo '0 0 88.5 41 63 37'"]
    rows += [f"{babble}; echo", "echo '0 0 88.5 42 63 37'; sleep 60"]

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        await until(collector, clock, "npu_temperature_celsius", 42.0)
        assert len(collector.notes) <= 4
        assert all(len(note) < 300 for note in collector.notes)

    play(npu_smi(tmp_path, "; ".join(rows)), story, silent_seconds=30.0)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        with pytest.raises(CollectorError, match="not found; is it in PATH"):
            await collector.collect(clock.now)

    play(NpuSmi([str(tmp_path / "npu-smi")]), story)


def test_a_card_held_by_another_container(tmp_path: Path) -> None:
    fails = f"cat {FIXTURES}/error_8005.txt; exit 187"

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        with pytest.raises(CollectorError, match="-8005: inner error, most often because the card is held"):
            await collector.collect(clock.now)

    play(npu_smi(tmp_path, fails, fails), story)


def test_rows_of_chips_that_the_table_did_not_tell(tmp_path: Path) -> None:
    rows = f"echo '{HEADER}'; echo '0 0 88.5 41 63 37'; sleep 60"

    async def story(collector: NpuSmiWatchCollector, clock: Clock) -> None:
        samples = await collector.collect(clock.now)
        assert {sample.labels for sample in samples} == {labels(npu="0", chip="0")}
        assert "npu_hbm_bandwidth_usage_ratio" not in {sample.name for sample in samples}

    play(npu_smi(tmp_path, rows, "exit 3"), story)
