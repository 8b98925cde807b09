"""`trimtab parse`: tables for people, one document for programs, and code 1 when nothing can be read."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from daemon.commands import parse
from tests.daemon.trimtab_command import Trimtab, one_line
from tests.prepare import ROOT

FIXTURES = ROOT / "tests" / "collectors" / "fixtures"
TABLE = FIXTURES / "npu_smi" / "b_910b.txt"


def test_json_is_one_document_with_the_promised_keys(trimtab: Trimtab) -> None:
    told = trimtab("parse", "npu-smi", str(TABLE), "--json")
    assert (told.code, told.err) == (0, "")
    assert list(told.json) == ["tool_version", "layout", "devices", "processes", "notes", "error"]
    assert [one["npu"] for one in told.json["devices"]] == [0, 5]
    assert told.json["devices"][1]["power_watts"] is None


def test_text_is_a_table_of_each_list_without_empty_columns(trimtab: Trimtab) -> None:
    told = trimtab("parse", "npu-smi", str(TABLE))
    assert told.code == 0
    assert "layout B" in told.out
    assert "910B4-1" in told.out and "VLLM::EngineCor" in told.out
    assert "container_pid" not in told.out, "a column of which nothing is known"


def test_notes_are_said_beside_the_result(trimtab: Trimtab) -> None:
    told = trimtab("parse", "npu-smi", str(FIXTURES / "npu_smi" / "damaged.txt"))
    assert told.code == 0
    assert "trimtab: line 8: Health is '0K', taken for OK" in told.err
    assert "devices" in told.out


def test_stdin(trimtab: Trimtab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TABLE.read_bytes())))
    assert len(trimtab("parse", "npu-smi", "-", "--json").json["devices"]) == 2


def test_an_error_of_the_driver_is_its_reason_and_mend_and_code_1(trimtab: Trimtab) -> None:
    file = str(FIXTURES / "npu_smi" / "error_8005.txt")
    told = trimtab("parse", "npu-smi", file, "--json")
    assert told.code == 1
    assert "held by another container; see which container has it" in told.json["error"]
    told = trimtab("parse", "npu-smi", file)
    assert told.code == 1
    assert "trimtab: the driver said -8005" in told.err


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("topo", "npu_smi/topo_phy_nic.txt", "SIO"),
        ("metrics", "vllm/vllm_0.32.prom", "trimtab_engine_ttft_seconds"),
        ("npu-smi", "npu_smi/watch_a3.txt", "type watch"),
        ("npu-smi", "npu_smi/t_hccs.txt", "200 400 600"),
        ("npu-exporter", "npu_exporter/two_devices.prom", "npu_hbm_used_bytes"),
        ("hccn", "hccn/link_up.txt", "True"),
    ],
)
def test_every_kind(trimtab: Trimtab, kind: str, name: str, said: str) -> None:
    told = trimtab("parse", kind, str(FIXTURES / name))
    assert told.code == 0
    assert said in told.out
    document = trimtab("parse", kind, str(FIXTURES / name), "--json").json
    assert document["error"] is None and isinstance(document["notes"], list)


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe\x80" * 1000, b"\xff\xfea\x00", b"hello"])
def test_what_is_no_output_at_all_is_code_1(trimtab: Trimtab, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "paste").write_bytes(content)
    for kind in parse.KINDS:
        told = trimtab("parse", kind, str(tmp_path / "paste"), "--json")
        assert told.code == 1
        assert told.json["error"]


def test_a_file_that_windows_wrote(trimtab: Trimtab, tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "paste").write_bytes(TABLE.read_text().replace("\n", "\r\n").encode(encoding))
        assert len(trimtab("parse", "npu-smi", str(tmp_path / "paste"), "--json").json["devices"]) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bogus", "x"), "no kind 'bogus': there are msprof, npu-smi, topo, metrics"),
        (("npu-smi", "/nowhere/at/all"), "cannot be read: No such file"),
        (("npu-smi", "/"), "cannot be read: Is a directory"),
        (("msprof", "/nowhere/at/all"), "does not exist"),
        (("npu-smi",), "Missing argument 'PATH'"),
    ],
)
def test_usage(trimtab: Trimtab, arguments: tuple[str, ...], said: str) -> None:
    told = trimtab("parse", *arguments)
    assert told.code == 2
    assert said in told.err
    one_line(told)


@pytest.mark.parametrize(("kind", "most"), [("npu-smi", 4), ("topo", 4), ("metrics", 16)])
def test_a_file_too_large_to_be_a_paste(trimtab: Trimtab, tmp_path: Path, kind: str, most: int) -> None:
    (tmp_path / "paste").write_bytes(b"x" * (most * 1024 * 1024 + 1))
    told = trimtab("parse", kind, str(tmp_path / "paste"))
    assert (told.code, f"over {most} MiB" in told.err) == (2, True)
