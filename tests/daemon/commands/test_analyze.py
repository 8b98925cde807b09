"""`trimtab analyze msprof`: what it prints, writes and refuses."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collectors.profile import captures
from tests.collectors.profile.captures import Run, run_after_run
from tests.daemon.trimtab_command import Trimtab, one_line
from tests.prepare import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank, us in ((0, 100.0), (1, 130.0)):
        out = tmp_path / f"rank{rank}"
        captures.kernels(out / "kernel_details.csv", run_after_run([Run("MatMulV2", 0, us)] * 5))
        captures.table(
            out / "memory_record.csv",
            ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)"),
            [("PTA", captures.stamp(1), 1.0, 2.0)],
        )
    return tmp_path


def test_text_is_the_usual_form(trimtab: Trimtab, folder: Path) -> None:
    told = trimtab("analyze", "msprof", str(folder))
    assert (told.code, told.err) == (0, "")
    assert "[high] rank 1 is slow: MatMulV2 takes 30% longer than elsewhere  (slow_card)" in told.out


def test_several_folders_are_one_analysis_as_json(trimtab: Trimtab, folder: Path) -> None:
    told = trimtab("analyze", "msprof", str(folder / "rank0"), str(folder / "rank1"), "--format", "json")
    assert told.code == 0
    assert [profile["label"] for profile in told.json["profiles"]] == ["rank 0", "rank 1"]
    assert "slow_card" in {finding["id"] for finding in told.json["findings"]}


def test_html_is_one_page_on_stdout(trimtab: Trimtab, folder: Path) -> None:
    told = trimtab("analyze", "msprof", str(folder), "--format", "html")
    assert told.code == 0
    assert told.out.startswith("<!doctype html>")
    assert told.out.rstrip().endswith("</html>")


@pytest.mark.parametrize(("name", "begin"), [("map.csv", "rank,component,"), ("map.svg", "<svg")])
def test_the_memory_map_is_written(trimtab: Trimtab, folder: Path, name: str, begin: str) -> None:
    told = trimtab("analyze", "msprof", str(folder), "--memory-map", str(folder / name))
    assert told.code == 0
    assert (folder / name).read_text().startswith(begin)
    assert name in told.err


@pytest.mark.parametrize("name", ["map.png", "no/such/folder/map.csv"])
def test_a_memory_map_that_cannot_be_written_is_a_usage_error(
    trimtab: Trimtab, folder: Path, name: str
) -> None:
    told = trimtab("analyze", "msprof", str(folder), "--memory-map", str(folder / name))
    assert told.code == 2
    one_line(told)


def test_switches_are_those_of_the_package_named(trimtab: Trimtab, folder: Path) -> None:
    runs = [Run("RmsNorm", 0, 10.0), Run("AscendQuantV2", 0, 10.0)]
    captures.kernels(folder / "rank0" / "kernel_details.csv", run_after_run(runs * 4))
    package = folder / "engine" / "vllm_ascend"
    package.mkdir(parents=True)
    (package / "ascend_config.py").write_text("class C:\n    fuse_norm_quant: bool = False\n")
    told = trimtab("analyze", "msprof", str(folder / "rank0"), "--vllm-ascend", str(folder / "engine"))
    assert told.code == 0
    assert "fuse_norm_quant, off by default: --additional-config" in told.out
    refused = trimtab("analyze", "msprof", str(folder), "--vllm-ascend", str(folder / "rank0"))
    assert refused.code == 2
    one_line(refused)


def test_nothing_usable_is_code_1_and_says_why(trimtab: Trimtab, tmp_path: Path) -> None:
    (tmp_path / "kernel_details.csv").write_text("not,a,profile\n")
    told = trimtab("analyze", "msprof", str(tmp_path), str(tmp_path / "gone"))
    assert (told.code, told.out) == (1, "")
    assert "kernel_details.csv: no column OP Type" in told.err
    assert "gone: there is no such file or folder" in told.err


def test_what_could_not_be_read_is_said_beside_the_rest(trimtab: Trimtab, folder: Path) -> None:
    (folder / "rank0" / "step_trace_time.csv").write_text("")
    told = trimtab("analyze", "msprof", str(folder), str(folder / "gone"))
    assert told.code == 0
    assert "step_trace_time.csv: the file is empty" in told.out
    assert "gone: there is no such file or folder" in told.out


@pytest.mark.parametrize(
    "words", [["analyze"], ["analyze", "msprof"], ["analyze", "msprof", ".", "--format", "pdf"]]
)
def test_usage_errors_are_code_2(trimtab: Trimtab, words: list[str]) -> None:
    told = trimtab(*words)
    assert told.code == 2
    one_line(told)


@pytest.mark.parametrize("words", [["--format", "html"], ["--format", "json"]])
def test_a_folder_whose_name_is_no_text_is_printed(tmp_path: Path, words: list[str]) -> None:
    named = tmp_path / os.fsdecode(b"run\xff")
    captures.kernels(named / "kernel_details.csv", captures.MIXED)
    svg = tmp_path / "memory.svg"
    done = subprocess.run(
        [sys.executable, "-m", "daemon.cli", "analyze", "msprof", *words, "--memory-map", str(svg), named],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert rb"run\udcff" in done.stdout
    assert svg.exists()


def test_a_bar_is_shown_on_a_terminal(folder: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "daemon.cli", "analyze", "msprof", str(folder)],
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm"},
            check=False,
        )
        os.close(theirs)
        shown = os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
    assert done.returncode == 0
    assert "reading" in shown
    assert b"reading" not in done.stdout
