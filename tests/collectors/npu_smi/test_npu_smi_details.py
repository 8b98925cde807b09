"""The -t types are asked in rotation, a few at a time, of a real program."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.npu_smi.npu_smi_details import KEEP_SECONDS, TYPES, NpuSmiDetailsCollector
from collectors.npu_smi.program import NpuSmi
from collectors.sample import CollectorError, Sample, labels
from tests.collectors.programs import program

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"
NOW = 1_700_000_000.0
OWN = labels(npu="0", chip="0", name="910B4-1")
UNSUPPORTED = 'echo "This device does not support querying $3."; exit 193'


class Ticks:
    """A clock that goes on by a second at each look."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds, self.now = seconds, 0.0

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def npu_smi(folder: Path, answers: dict[str, str], table: str = "b_910b.txt") -> NpuSmi:
    """A program that answers these types with these lines of shell, and no other."""
    cases = "\n".join(f"{kind}) {shell} ;;" for kind, shell in answers.items())
    body = f"""echo "$*" >> {folder}/asked
if [ -z "$2" ]; then cat {FIXTURES}/{table}; exit; fi
case "$3" in
{cases}
*) {UNSUPPORTED} ;;
esac"""
    return NpuSmi([program(folder, body)])


def asked(folder: Path) -> list[str]:
    return [
        line for line in (folder / "asked").read_text().splitlines() if line not in ("info", "info -t topo")
    ]


def collect(
    collector: NpuSmiDetailsCollector, now: float = NOW
) -> dict[tuple[str, tuple[tuple[str, str], ...]], Sample]:
    return {(one.name, one.labels): one for one in asyncio.run(collector.collect(now))}


def test_all_types_are_asked_of_all_chips_and_what_is_not_supported_never_again(tmp_path: Path) -> None:
    answers = {"ecc": f"cat {FIXTURES}/t_ecc.txt", "hccs": f"cat {FIXTURES}/t_hccs.txt"}
    collector = NpuSmiDetailsCollector(npu_smi(tmp_path, answers), budget_seconds=100.0, monotonic=Ticks())
    found = collect(collector)
    assert (
        found["npu_hbm_ecc_errors_total", labels(npu="0", chip="0", name="910B4-1", bits="single")].value
        == 4.0
    )
    assert found["npu_hccs_errors_total", OWN].value == 2.0
    assert collector.notes == (), "not supported is neither damage nor zero"
    assert {line.split()[2] for line in asked(tmp_path)} == set(TYPES) - {"proc-mem"}
    assert "info -t ecc -i 5 -c 0" in asked(tmp_path)
    (tmp_path / "asked").write_text("")
    collect(collector, NOW + 30.0)
    assert {line.split()[2] for line in asked(tmp_path)} == {"ecc", "hccs"}


def test_a_reading_stops_at_its_budget_and_the_next_goes_on(tmp_path: Path) -> None:
    answers = dict.fromkeys(TYPES, f"cat {FIXTURES}/t_ecc.txt")
    collector = NpuSmiDetailsCollector(npu_smi(tmp_path, answers), budget_seconds=5.0, monotonic=Ticks())
    collect(collector)
    first = asked(tmp_path)
    assert len(first) == 3
    for step in range(1, 6):
        collect(collector, NOW + 30.0 * step)
    everything = asked(tmp_path)
    assert everything[3] not in first[1::2]
    others = [line for line in everything if "-t health" not in line]
    assert len(others[:14]) == len(set(others)) == 9, "7 types of 2 chips, none again before all were asked"


def test_every_second_question_is_one_of_health(tmp_path: Path) -> None:
    answers = dict.fromkeys(TYPES, f"cat {FIXTURES}/t_ecc.txt")
    collector = NpuSmiDetailsCollector(npu_smi(tmp_path, answers), budget_seconds=0.0, monotonic=Ticks())
    for step in range(12):
        collect(collector, NOW + 30.0 * step)
    chips = [line.partition("-i")[2] for line in asked(tmp_path)[::2] if "-t health" in line]
    assert chips == [" 0 -c 0", " 5 -c 0"] * 3


def test_on_a_large_node_answers_are_kept_until_their_turn_comes_again(tmp_path: Path) -> None:
    answers = dict.fromkeys(TYPES, "echo 'Health : OK'") | {"ecc": f"cat {FIXTURES}/t_ecc.txt"}
    collector = NpuSmiDetailsCollector(
        npu_smi(tmp_path, answers), interval_seconds=60.0, budget_seconds=0.0, monotonic=Ticks()
    )
    seen = []
    for step in range(60):  # a round is 14 other questions, or 28 minutes with those of health
        found = collect(collector, NOW + 60.0 * step)
        seen.append(any(name == "npu_hbm_ecc_errors_total" for name, _ in found))
    assert all(seen[seen.index(True) :])


def test_answers_are_given_again_with_their_time_until_they_are_too_old(tmp_path: Path) -> None:
    ticks = Ticks()
    collector = NpuSmiDetailsCollector(
        npu_smi(tmp_path, {"ecc": f"cat {FIXTURES}/t_ecc.txt"}),
        interval_seconds=1.0,
        budget_seconds=0.5,
        monotonic=ticks,
    )
    key = ("npu_hbm_ecc_errors_total", labels(npu="0", chip="0", name="910B4-1", bits="single"))
    passes = 0
    found = collect(collector)
    while key not in found:
        passes += 1
        found = collect(collector, NOW + passes)
    at = found[key].time
    again = collect(collector, NOW + passes + 1)
    assert again[key].time == at
    (tmp_path / "npu-smi").write_text(f"#!/bin/sh\n{UNSUPPORTED}\n")
    assert key not in collect(collector, at + KEEP_SECONDS + 1.0)


def test_chips_without_numbers_are_asked_without(tmp_path: Path) -> None:
    collector = NpuSmiDetailsCollector(
        npu_smi(tmp_path, {}, "c_950.txt"), budget_seconds=100.0, monotonic=Ticks()
    )
    collect(collector)
    assert all(" -c " not in line for line in asked(tmp_path))
    assert "info -t ecc -i 6" in asked(tmp_path)


def test_processes_are_asked_for_where_the_table_is_full(tmp_path: Path) -> None:
    table = (FIXTURES / "b_910b.txt").read_text()
    row = next(line for line in table.splitlines() if "python3" in line)
    many = "\n".join(row.replace("40305", str(50000 + n)) for n in range(7))
    (tmp_path / "table").write_text(table.replace(row, many))
    answers = {"proc-mem": f"cat {FIXTURES}/t_proc_mem.txt"}
    tested = npu_smi(tmp_path, answers, f"../../../../{'../' * 12}{tmp_path}/table")
    collector = NpuSmiDetailsCollector(tested, budget_seconds=100.0, monotonic=Ticks())
    found = collect(collector)
    assert "info -t proc-mem -i 0 -c 0" in asked(tmp_path)
    assert "info -t proc-mem -i 5 -c 0" not in asked(tmp_path)
    own = labels(npu="0", chip="0", name="910B4-1", pid="70011", process="VLLM::Worker_TP")
    assert found["npu_process_memory_bytes", own].value == 50120 * 1024**2
    assert any("process memory is '12z'" in note for note in collector.notes)


def test_the_controllers_lines_and_other_chips_lines_are_not_this_chips(tmp_path: Path) -> None:
    answers = {
        "usages": f"cat {FIXTURES}/t_usages_two_dies.txt",
        "common": f"cat {FIXTURES}/t_common_mcu.txt",
    }
    collector = NpuSmiDetailsCollector(npu_smi(tmp_path, answers), budget_seconds=100.0, monotonic=Ticks())
    found = collect(collector)
    assert found["npu_hbm_bandwidth_usage_ratio", OWN].value == 0.44
    assert found["npu_aicore_frequency_hertz", OWN].value == 1.2e9


@pytest.mark.parametrize(
    ("shell", "note"),
    [
        ("echo 'failed. ret is -8012'; exit 180", "-8012: the device is not ready"),
        ("exit 187", "exit code 187, which is -8005"),
        ("head -c 3000 /dev/zero", "printed nothing that is known"),
        ("echo 'Aicore Usage Rate(%) : 5'; echo 'Flux : 3'", "not a known line: Flux : 3"),
    ],
)
def test_an_answer_that_is_none_is_told(tmp_path: Path, shell: str, note: str) -> None:
    collector = NpuSmiDetailsCollector(
        npu_smi(tmp_path, {"usages": shell}), budget_seconds=100.0, monotonic=Ticks()
    )
    collect(collector)
    assert [one for one in collector.notes if one.startswith("-t usages of NPU 0 chip 0") and note in one]


def test_without_a_table_there_is_nobody_to_ask(tmp_path: Path) -> None:
    collector = NpuSmiDetailsCollector(NpuSmi([program(tmp_path, "exit 187")]))
    with pytest.raises(CollectorError, match="no chip to ask about"):
        asyncio.run(collector.collect(NOW))


def test_a_query_that_hangs_fails_the_reading_and_the_next_goes_on_behind_it(tmp_path: Path) -> None:
    tested = npu_smi(tmp_path, {"health": "exec sleep 60", "ecc": f"cat {FIXTURES}/t_ecc.txt"})
    tested.timeout_seconds = 0.3
    collector = NpuSmiDetailsCollector(tested, budget_seconds=100.0, monotonic=Ticks())
    with pytest.raises(CollectorError, match="no answer within"):
        asyncio.run(collector.collect(NOW))
    assert asked(tmp_path)[-1] == "info -t health -i 0 -c 0"
    with pytest.raises(CollectorError, match="no answer within"):
        asyncio.run(collector.collect(NOW))
    assert asked(tmp_path)[-1] == "info -t health -i 5 -c 0"


def test_what_the_watch_gives_is_left_to_it_and_is_no_old_news_when_it_ends(tmp_path: Path) -> None:
    usages, other = f"cat {FIXTURES}/t_usages_two_dies.txt", f"cat {FIXTURES}/t_ecc.txt"
    tested = npu_smi(tmp_path, {"usages": usages, "ecc": other, "memory": other, "volt": other})
    collector = NpuSmiDetailsCollector(tested, budget_seconds=0.0, monotonic=Ticks())
    key = ("npu_hbm_bandwidth_usage_ratio", OWN)
    tested.watched = frozenset({key})
    step = 0
    while step < 30 or asked(tmp_path)[-1] != "info -t usages -i 0 -c 0":
        assert key not in collect(collector, NOW + step)
        step += 1
    tested.watched = frozenset()
    while key not in (found := collect(collector, NOW + step)):
        step += 1
    assert found[key].time > NOW + step, "asked anew, not the answer of before"
