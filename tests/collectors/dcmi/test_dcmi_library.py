"""The driver's library is asked through ctypes; a compiled stand-in answers, refuses and hangs."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

import pytest

from collectors.dcmi.dcmi import DcmiCollector
from collectors.history import History
from collectors.identity import Identities
from collectors.sample import CollectorError, Labels, Sample, labels
from tests.prepare import find_program

SOURCE = Path(__file__).parent.parent / "fixtures" / "dcmi" / "fake_dcmi.c"
NOW = 1_700_000_000.0
GOOD = {
    "init": "0",
    "cards": "0 2 5",
    "chips 2": "0 1",
    "chips 5": "0 2",
    "name 2 0": "0 910B3",
    "clock 2 0": "0 1800 1200",
    "info 2 0 8 9": "0 0x0c",
    "usage 2 0 2": "0 87",
    "usage 2 0 10": "0 41",
    "usage 2 0 12": "0 12",
    "usage 2 0 13": "0 90",
    "usage 2 0 14": "0 79",
    "name 5 0": "0 910B3",
    "clock 5 0": "0 1800 800",
    "info 5 0 8 9": "0 1",
    "name 5 1": "0 910B3",
    "info 5 1 8 9": "0 0",
    "usage 5 1 2": "0 0",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("dcmi") / "libdcmi.so")


def compiled(target: Path, *options: str) -> Path:
    compiler = find_program("cc")
    assert compiler is not None
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wall", "-Werror", *options, "-o", str(target), str(SOURCE)],
        check=True,
    )
    return target


class Driver:
    """What the stand-in answers from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def answers(self, lines: dict[str, str]) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(f"{call}: {answer}\n" for call, answer in lines.items()))
        fresh.rename(self._path)  # the stand-in never sees half a file


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    path = tmp_path / "answers"
    monkeypatch.setenv("TRIMTAB_FAKE_DCMI", str(path))
    made = Driver(path)
    made.answers(GOOD)
    return made


def collected(collector: DcmiCollector) -> dict[tuple[str, Labels], object]:
    found = asyncio.run(collector.collect(NOW))
    assert len({(sample.name, sample.labels) for sample in found}) == len(found)
    return {(sample.name, sample.labels): sample.value for sample in found}


FIRST = labels(npu="2", chip="0", name="910B3")
IDLE = labels(npu="5", chip="0", name="910B3")
RATED = labels(npu="5", chip="1", name="910B3")

pytestmark = pytest.mark.debian("cc")


def test_every_chip_of_every_card_is_asked(library: Path, driver: Driver) -> None:
    collector = DcmiCollector(library)
    found = collected(collector)
    assert found["npu_aicore_rated_frequency_hertz", FIRST] == 1.8e9
    assert found["npu_aicore_frequency_hertz", FIRST] == 1.2e9
    ratios = {name: value for (name, pairs), value in found.items() if pairs == FIRST and "ratio" in name}
    assert ratios == {
        "npu_aicore_usage_ratio": 0.87,
        "npu_hbm_bandwidth_usage_ratio": 0.41,
        "npu_vector_usage_ratio": 0.12,
        "npu_overall_usage_ratio": 0.9,
        "npu_cube_usage_ratio": 0.79,
    }
    assert found["npu_sm_activity", FIRST] == pytest.approx(87.0)
    assert found["npu_aicore_usage_ratio", RATED] == 0.0, "a reading of zero is a reading"
    assert collector.notes == ()


def test_each_reason_for_a_lower_clock_is_named(library: Path, driver: Driver) -> None:
    found = collected(DcmiCollector(library))
    reasons = {
        dict(pairs)["reason"]
        for name, pairs in found
        if name == "npu_clock_reduced" and set(FIRST) < set(pairs)
    }
    assert reasons == {"thermal", "over_current"}
    assert found["npu_throttled", FIRST] == 1.0


def test_an_idle_chip_is_not_throttled(library: Path, driver: Driver) -> None:
    found = collected(DcmiCollector(library))
    assert found["npu_throttled", IDLE] == 0.0
    assert found["npu_clock_reduced", tuple(sorted((*IDLE, ("reason", "idle"))))] == 1.0
    assert found["npu_throttled", RATED] == 0.0
    assert not [pairs for name, pairs in found if name == "npu_clock_reduced" and set(RATED) < set(pairs)]


def test_what_a_chip_does_not_support_is_absent_and_no_note(library: Path, driver: Driver) -> None:
    driver.answers(GOOD | {"info 2 0 8 9": "-8255", "usage 2 0 14": "-8255"})
    collector = DcmiCollector(library)
    found = collected(collector)
    assert ("npu_throttled", FIRST) not in found
    assert ("npu_cube_usage_ratio", FIRST) not in found
    assert collector.notes == ()


def test_a_library_older_than_a_call_gives_the_rest(tmp_path: Path, driver: Driver) -> None:
    found = collected(DcmiCollector(compiled(tmp_path / "old.so", "-DWITHOUT_UTILIZATION")))
    assert ("npu_throttled", FIRST) in found
    assert ("npu_aicore_usage_ratio", FIRST) not in found


def test_a_card_that_refuses_is_told_and_the_others_are_read(library: Path, driver: Driver) -> None:
    driver.answers(GOOD | {"chips 5": "-8020", "usage 2 0 2": "-8006", "usage 2 0 13": "0 4294967295"})
    collector = DcmiCollector(library)
    found = collected(collector)
    assert {dict(pairs)["npu"] for _, pairs in found} == {"2"}
    assert ("npu_aicore_usage_ratio", FIRST) not in found
    notes = "\n".join(collector.notes)
    assert (
        "NPU 5: dcmi_get_device_id_in_card: -8020, the card is held by another container; see which" in notes
    )
    assert "NPU 2 chip 0: dcmi_get_device_utilization_rate: -8006" in notes
    assert "NPU 2 chip 0: npu_overall_usage_ratio reads 4294967295 %" in notes


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"init": "-8002"}, r"dcmi_init: -8002, no permission; run as root or join"),
        ({"init": "-9999"}, r"-9999, a code that is not known"),
        (GOOD | {"cards": "-8005"}, r"dcmi_get_card_list: -8005, inner error, most often .* container; see"),
        (GOOD | {"cards": "0"}, r"no device is listed"),
        (
            {"init": "0", "cards": "0 1", "chips 1": "0 1", "clock 1 0": "-8012"},
            r"NPU 1 chip 0: .* not ready",
        ),
    ],
)
def test_a_driver_that_gives_nothing_is_an_error_with_a_mend(
    library: Path, driver: Driver, answers: dict[str, str], reason: str
) -> None:
    driver.answers(answers)
    with pytest.raises(CollectorError, match=reason):
        collected(DcmiCollector(library))


def test_a_driver_that_starts_later_is_read_then(library: Path, driver: Driver) -> None:
    collector = DcmiCollector(library)
    driver.answers({"init": "-8012"})
    with pytest.raises(CollectorError, match="not ready"):
        collected(collector)
    driver.answers(GOOD)
    assert ("npu_throttled", FIRST) in collected(collector)


def test_a_driver_that_hangs_blocks_neither_the_loop_nor_a_second_thread(
    library: Path, driver: Driver
) -> None:
    collector = DcmiCollector(library)

    async def scenario() -> None:
        driver.answers(GOOD | {"clock 2 0": "hang"})
        began = time.perf_counter()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await collector.collect(NOW)
        with pytest.raises(
            CollectorError, match="an earlier reading still hangs; the driver may hang: see dmesg"
        ):
            await collector.collect(NOW)
        assert time.perf_counter() - began < 5.0
        driver.answers(GOOD)
        assert collector._calls.finished is not None
        await asyncio.to_thread(collector._calls.finished.wait, 10)
        assert await collector.collect(NOW)

    asyncio.run(scenario())


def test_a_device_has_the_name_that_the_other_sources_gave_it(library: Path, driver: Driver) -> None:
    history = History()
    history.add([Sample("npu_info", 1.0, NOW, labels(npu="2", chip="0", name="Ascend910", phy_id="4"))])
    found = collected(DcmiCollector(library, identities=Identities(history)))
    assert ("npu_throttled", labels(npu="2", chip="0", name="Ascend910")) in found
    assert ("npu_throttled", RATED) in found
