"""The program shared by all npu-smi sources: one question at a time, and who the chips are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.npu_smi.program import Device, NpuSmi
from collectors.sample import CollectorError, Sample, labels
from tests.collectors.programs import program

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"


def test_questions_do_not_overlap(tmp_path: Path) -> None:
    body = f"""
    mkdir {tmp_path}/inside || {{ echo overlap; exit 1; }}
    sleep 0.05; rmdir {tmp_path}/inside; echo "$*" """
    npu_smi = NpuSmi([program(tmp_path, body)])

    async def ask() -> list[str]:
        return [
            one.said.strip() for one in await asyncio.gather(*(npu_smi.query("-t", str(n)) for n in range(4)))
        ]

    assert asyncio.run(ask()) == [f"info -t {n}" for n in range(4)]


def test_an_answer_tells_how_long_its_question_waited(tmp_path: Path) -> None:
    npu_smi = NpuSmi([program(tmp_path, f"sleep 0.3; cat {FIXTURES}/b_910b.txt")])

    async def ask() -> tuple[float, float]:
        first, second = await asyncio.gather(npu_smi.query("-t", "ecc"), npu_smi.table())
        return first.waited, second.waited

    first, second = asyncio.run(ask())
    assert first < 0.1 and second >= 0.2


def test_the_table_tells_who_the_chips_are(tmp_path: Path) -> None:
    npu_smi = NpuSmi([program(tmp_path, f"cat {FIXTURES}/a3_two_dies.txt")])
    asyncio.run(npu_smi.table())
    assert [(one.npu, one.chip, one.phy_id, one.numbered) for one in npu_smi.devices] == [
        ("4", "0", "8", True),
        ("4", "1", "9", True),
    ]
    assert npu_smi.device("4", "1") is npu_smi.devices[1]
    assert npu_smi.device("4", None) is None, "which of the two is not said"
    assert npu_smi.device("9", "0") is None


def test_it_is_learnt_once_and_a_failure_is_left_to_others(tmp_path: Path) -> None:
    npu_smi = NpuSmi([program(tmp_path, f"echo x >> {tmp_path}/runs; exit 187")])

    async def twice() -> None:
        await npu_smi.learn()
        await npu_smi.learn()

    asyncio.run(twice())
    assert (tmp_path / "runs").read_text() == "x\n"
    with pytest.raises(CollectorError, match="-8005"):
        asyncio.run(npu_smi.table())


MATRIX = """       NPU0       NPU5       CPU Affinity
NPU0       X          HCCS       144-167
NPU5       HCCS       X          96-x
"""


@pytest.mark.parametrize(
    ("table", "matrix", "near", "notes"),
    [
        ("b_910b", MATRIX, {("0", "0"): tuple(range(144, 168))}, ["-t topo: line 3: CPU affinity is '96-x'"]),
        ("a3_two_dies", "Phy-ID8 Phy-ID9 CPU Affinity\nPhy-ID8 X SIO 0-1\nPhy-ID9 SIO X 2-3\n",
         {("4", "0"): (0, 1), ("4", "1"): (2, 3)}, []),
        ("a3_two_dies", "NPU4 CPU Affinity\nNPU4 X 0-1\n", {}, []),
        ("b_910b", "This device does not support querying topo.\n", {}, []),
    ],
)  # fmt: skip
def test_the_cpus_near_a_chip_are_asked_for_once(
    tmp_path: Path, table: str, matrix: str, near: dict[tuple[str, str], tuple[int, ...]], notes: list[str]
) -> None:
    (tmp_path / "matrix").write_text(matrix)
    body = f"echo x >> {tmp_path}/runs; [ $# = 1 ] && exec cat {FIXTURES}/{table}.txt; cat {tmp_path}/matrix"
    npu_smi = NpuSmi([program(tmp_path, body)])

    async def twice() -> tuple[str, ...]:
        await npu_smi.learn()
        told = await npu_smi.learn_topology()
        assert await npu_smi.learn_topology() == ()
        return told

    told = asyncio.run(twice())
    assert {(one.npu, one.chip): cpus for one, cpus in npu_smi.near_cpus.items()} == near
    assert [note[: len(text)] for note, text in zip(told, notes, strict=True)] == notes
    assert (tmp_path / "runs").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("layout", "name", "hbm"),
    [
        ("A", "310P3", False),
        ("B", "910A", False),
        ("B", "910ProB", False),
        ("B", "910B4-1", True),
        ("B", "Ascend 910B2C", True),
        ("B", None, None),
        ("B'", "Ascend910", True),
        ("C", "Ascend950DT", True),
    ],
)
def test_whose_memory_the_watch_means(layout: str, name: str | None, hbm: bool | None) -> None:
    assert Device("0", "0", name, layout).watch_shows_hbm is hbm


def test_series_that_the_watch_gives_are_left_to_it() -> None:
    npu_smi = NpuSmi()
    own, other = labels(npu="0", chip="0"), labels(npu="1", chip="0")
    npu_smi.watched = frozenset({("npu_power_watts", own)})
    kept = [Sample("npu_power_watts", 1.0, 0.0, other), Sample("npu_health_ok", 1.0, 0.0, own)]
    assert npu_smi.not_watched([Sample("npu_power_watts", 1.0, 0.0, own), *kept]) == kept


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        NpuSmi([])


def test_who_has_learnt_does_not_wait_for_a_question_under_way(tmp_path: Path) -> None:
    npu_smi = NpuSmi([program(tmp_path, f"[ $# = 1 ] && exec cat {FIXTURES}/b_910b.txt; exec sleep 60")])

    async def story() -> None:
        await npu_smi.learn()
        asking = asyncio.create_task(npu_smi.query("-t", "ecc"))
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await npu_smi.learn()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(story())
