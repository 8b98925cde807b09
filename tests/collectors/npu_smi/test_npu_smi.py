"""npu-smi is run as a real program that works, fails, babbles, hangs or is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.npu_smi.npu_smi import NpuSmiCollector
from collectors.npu_smi.program import NpuSmi
from collectors.npu_smi.samples import table_samples
from collectors.npu_smi.table import parse_table
from collectors.sample import CollectorError, Sample, labels
from tests.collectors.programs import program

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"
NOW = 1_700_000_000.0


def collect(collector: NpuSmiCollector) -> list[Sample]:
    return asyncio.run(collector.collect(NOW))


def refusal(command: str, **options: float) -> str:
    with pytest.raises(CollectorError) as caught:
        collect(NpuSmiCollector(NpuSmi([command], **options)))
    return str(caught.value)


def test_a_table_becomes_samples_of_each_chip() -> None:
    samples = table_samples(parse_table((FIXTURES / "b_910b.txt").read_text()), NOW)
    found = {(sample.name, sample.labels): sample.value for sample in samples}
    first, second = labels(npu="0", chip="0", name="910B4-1"), labels(npu="5", chip="0", name="910ProB")
    assert found["npu_aicore_usage_ratio", first] == 0.63
    assert found["npu_sm_activity", first] == 63.0
    assert found["npu_hbm_used_bytes", first] == 59910 * 1024**2
    assert found["npu_health_ok", first] == 1.0
    assert found["npu_health_ok", second] == 0.0
    assert found["npu_health_state", labels(npu="5", chip="0", name="910ProB", state="Alarm")] == 1.0
    assert ("npu_power_watts", second) not in found, "'-' is not a zero"
    assert ("npu_memory_total_bytes", first) not in found, "0 / 0 is no memory"
    process = labels(npu="0", chip="0", name="910B4-1", pid="40211", process="VLLM::EngineCor")
    assert found["npu_process_memory_bytes", process] == 55300 * 1024**2
    assert found["npu_info", labels(npu="0", chip="0", name="910B4-1", bus_id="0000:C1:00.0")] == 1.0


def test_runs_the_program_in_the_plain_locale(tmp_path: Path) -> None:
    command = program(tmp_path, f'[ "$1 $LC_ALL $LANG" = "info C C" ] && cat {FIXTURES}/a_310p.txt')
    collector = NpuSmiCollector(NpuSmi([command]))
    assert {dict(sample.labels)["npu"] for sample in collect(collector)} == {"3", "2144"}
    assert collector.notes == ()


def test_what_could_not_be_read_is_in_the_notes(tmp_path: Path) -> None:
    collector = NpuSmiCollector(NpuSmi([program(tmp_path, f"cat {FIXTURES}/damaged.txt; exit 3")]))
    assert {dict(sample.labels)["npu"] for sample in collect(collector)} == {"0", "1", "3", "4", "6", "8"}
    assert len(collector.notes) > 10
    assert collector.notes[-1] == "exit code 3"


def test_a_table_that_waited_for_its_turn_is_timed_when_it_came(tmp_path: Path) -> None:
    npu_smi = NpuSmi([program(tmp_path, f"sleep 0.3; cat {FIXTURES}/a_310p.txt")])

    async def ask() -> list[Sample]:
        asking = asyncio.create_task(npu_smi.query("-t", "ecc"))
        await asyncio.sleep(0)
        samples = await NpuSmiCollector(npu_smi).collect(NOW)
        await asking
        return samples

    assert all(NOW + 0.2 <= sample.time < NOW + 5.0 for sample in asyncio.run(ask()))


def test_messages_on_stderr_do_not_get_into_the_table(tmp_path: Path) -> None:
    body = f"head -7 {FIXTURES}/a_310p.txt; echo 'a warning' >&2; tail -n +8 {FIXTURES}/a_310p.txt"
    collector = NpuSmiCollector(NpuSmi([program(tmp_path, body)]))
    collect(collector)
    assert collector.notes == ()


def test_a_missing_program(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "npu-smi")).endswith("npu-smi: not found; is it in PATH?")


def test_the_drivers_error_is_named_with_the_exit_code(tmp_path: Path) -> None:
    text = refusal(program(tmp_path, f"cat {FIXTURES}/error_8005.txt; exit 187"))
    assert "-8005: inner error, most often because the card is held by another container" in text
    assert text.endswith("(exit code 187)")


def test_an_error_on_stderr_alone_is_named(tmp_path: Path) -> None:
    assert "npu-smi cannot load libdrvdsmi_host.so; mount the driver" in refusal(
        program(tmp_path, "echo 'npu-smi: libdrvdsmi_host.so: cannot open shared object' >&2; exit 127")
    )


@pytest.mark.parametrize(
    "body", ["head -c 3000 /dev/urandom", "printf '\\377\\376|\\200|\\n'", "printf '\\0\\0\\n'", ":"]
)
def test_garbage_is_an_error(tmp_path: Path, body: str) -> None:
    assert "npu-smi printed" in refusal(program(tmp_path, body))


def test_half_a_character_in_a_process_name_does_not_spoil_the_table(tmp_path: Path) -> None:
    table = (FIXTURES / "b_910b.txt").read_bytes().replace(b"VLLM::EngineCor", b"VLLM::Engine\xe6\x8e ")
    (tmp_path / "table").write_bytes(table)
    collector = NpuSmiCollector(NpuSmi([program(tmp_path, f"cat {tmp_path}/table")]))
    names = {dict(sample.labels).get("process") for sample in collect(collector)}
    assert "VLLM::Engine\\xe6\\x8e" in names
    assert collector.notes == ()
