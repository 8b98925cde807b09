"""hccn_tool is run as a real program that answers, refuses, babbles, hangs or is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.hccn.hccn import WAIT_SECONDS, HccnCollector
from collectors.history import History
from collectors.identity import Identities
from collectors.sample import CollectorError, Labels, Sample, labels
from tests.collectors.programs import program

FIXTURES = Path(__file__).parent.parent / "fixtures" / "hccn"
NOW = 1_700_000_000.0
ANSWERS = f"""
case "$2 $3 $6" in
*-link*) echo "link status: UP" ;;
*-net_health*) echo "net health status: Init" ;;
*-tls*) cat {FIXTURES}/tls.txt ;;
*192.0.2.17) cat {FIXTURES}/ping_lossy.txt ;;
esac"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "hccn.conf"
    path.write_text("address_0=192.0.2.10\naddress_5=192.0.2.15\n")
    return path


def values(collector: HccnCollector) -> dict[tuple[str, Labels], object]:
    return {(sample.name, sample.labels): sample.value for sample in asyncio.run(collector.collect(NOW))}


FIRST, SIXTH = labels(npu="0", chip="0"), labels(npu="5", chip="0")


def test_every_device_that_has_an_address_is_asked(tmp_path: Path, conf: Path) -> None:
    collector = HccnCollector(program(tmp_path, ANSWERS, "hccn_tool"), conf=conf, ping=["192.0.2.17"])
    found = values(collector)
    for device in (FIRST, SIXTH):
        assert found["npu_link_up", device] == 1.0
        assert found["npu_network_state", labels(**dict(device), state="Init")] == 1.0
        assert ("npu_network_ok", device) not in found, "nobody knows yet"
        assert found["npu_tls_enabled", device] == 1.0
        address = labels(**dict(device), address="192.0.2.17")
        assert found["npu_ping_lost_ratio", address] == pytest.approx(1 / 3)
        assert found["npu_ping_seconds", address] == pytest.approx(80e-6)
    assert collector.notes == ()


def test_nothing_is_pinged_unasked(tmp_path: Path, conf: Path) -> None:
    log = tmp_path / "log"
    values(HccnCollector(program(tmp_path, f'echo "$@" >> {log}\n{ANSWERS}', "hccn_tool"), conf=conf))
    assert log.read_text().splitlines() == [
        f"-i {number} {what} -g" for number in (0, 5) for what in ("-link", "-net_health", "-tls")
    ]


@pytest.mark.parametrize(("word", "ok"), [("Success", 1.0), ("Fault", 0.0)])
def test_health_is_one_or_zero_where_it_is_known(tmp_path: Path, conf: Path, word: str, ok: float) -> None:
    tool = program(tmp_path, f'echo "net health status: {word}"', "hccn_tool")
    assert values(HccnCollector(tool, conf=conf))["npu_network_ok", FIRST] == ok


def test_a_device_that_refuses_is_told_and_the_others_are_read(tmp_path: Path, conf: Path) -> None:
    tool = program(
        tmp_path, f'[ $2 = 0 ] && {{ echo "Cmd execute failed!"; exit 1; }}\n{ANSWERS}', "hccn_tool"
    )
    collector = HccnCollector(tool, conf=conf)
    assert {dict(pairs)["npu"] for _, pairs in values(collector)} == {"5"}
    assert len(collector.notes) == 3
    assert collector.notes[0].startswith(
        "device 0, -link: hccn_tool said 'Cmd execute failed!'; run it as root"
    )
    assert collector.notes[0].endswith("(exit code 1)")


def test_a_device_that_hangs_costs_one_command_and_the_others_are_read(tmp_path: Path, conf: Path) -> None:
    collector = HccnCollector(
        program(tmp_path, f"[ $2 = 0 ] && sleep 60\n{ANSWERS}", "hccn_tool"), conf=conf, timeout_seconds=0.5
    )
    assert {dict(pairs)["npu"] for _, pairs in values(collector)} == {"5"}
    assert len(collector.notes) == 1
    assert "device 0: " in collector.notes[0] and "no answer within 0.5 s" in collector.notes[0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("exit 1", r"printed nothing; is the driver loaded.*\(exit code 1\)"),
        ("printf 'link status: \\377\\376\\n'", r"said 'link status: .+xff"),
        ("head -c 5000000 /dev/zero", "printed more than"),
    ],
)
def test_a_tool_that_gives_nothing_is_an_error(tmp_path: Path, conf: Path, body: str, reason: str) -> None:
    with pytest.raises(CollectorError, match=reason):
        values(HccnCollector(program(tmp_path, body, "hccn_tool"), conf=conf))


def test_a_tool_that_is_missing_or_may_not_be_run_is_an_error(tmp_path: Path, conf: Path) -> None:
    with pytest.raises(CollectorError, match="not found; is it in PATH"):
        values(HccnCollector(str(tmp_path / "hccn_tool"), conf=conf))
    Path(tool := program(tmp_path, "true", "hccn_tool")).chmod(0o644)
    with pytest.raises(CollectorError, match="cannot be run: Permission denied"):
        values(HccnCollector(tool, conf=conf))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory; set addresses with"),
        ("", "names no device; set addresses with"),
        ("\x00\xff" * 50, "names no device"),
    ],
)
def test_without_addresses_there_is_nobody_to_ask(tmp_path: Path, content: str | None, reason: str) -> None:
    path = tmp_path / "hccn.conf"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    with pytest.raises(CollectorError, match=reason):
        values(HccnCollector("hccn_tool", conf=path))


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="Is a directory"):
        values(HccnCollector("hccn_tool", conf=tmp_path))


def test_nothing_is_asked_and_it_looks_again_soon_until_npu_smi_has_listed_the_devices(
    tmp_path: Path, conf: Path
) -> None:
    history = History()
    tool = program(tmp_path, f"touch {tmp_path}/asked; {ANSWERS}", "hccn_tool")
    collector = HccnCollector(tool, conf=conf, identities=Identities(history, awaited=True))
    assert values(collector) == {}
    assert collector.interval_seconds == WAIT_SECONDS and not (tmp_path / "asked").exists()
    assert [note for note in collector.notes if "npu-smi has not listed which device" in note]
    history.add([Sample("npu_info", 1.0, NOW, labels(npu="2", chip="1", phy_id="5"))])
    assert values(collector)["npu_link_up", labels(npu="2", chip="1")] == 1.0
    assert collector.interval_seconds == 120.0


def test_a_die_of_a_card_of_two_is_named_as_npu_smi_names_it(tmp_path: Path, conf: Path) -> None:
    history = History()
    die = labels(npu="2", chip="1", name="Ascend910")
    history.add([Sample("npu_info", 1.0, NOW, labels(**dict(die), phy_id="5", bus_id="0000:0B:00.0"))])
    tool = program(tmp_path, ANSWERS, "hccn_tool")
    found = values(HccnCollector(tool, conf=conf, identities=Identities(history)))
    assert found["npu_link_up", die] == 1.0
