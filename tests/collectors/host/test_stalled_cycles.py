"""perf is run for the engine's processes, and a refusal names its reason."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from collectors.host.stalled_cycles import StalledCyclesCollector
from collectors.host.tree import EngineTree
from collectors.sample import CollectorError, Sample, labels
from sim.host_tree import HostTree

GOOD = "200,,stalled-cycles-frontend,1\n<not supported>,,stalled-cycles-backend,1\n1000,,cycles,1\n"


@pytest.fixture
def laid(tmp_path: Path) -> HostTree:
    tree = HostTree(tmp_path)
    tree.process(500, "vllm")
    tree.process(512, "VLLM::Worker_TP", 500)
    tree.write("/proc/sys/kernel/perf_event_paranoid", "3\n")
    return tree


def program(laid: HostTree, text: str, code: int = 0) -> str:
    """A perf that writes down its arguments and says `text`."""
    path = laid.root / "perf"
    laid.write("/said", text)
    path.write_text(
        f"#!/bin/sh\nprintf '%s ' \"$@\" > {laid.root}/asked\ncat {laid.root}/said >&2\nexit {code}\n"
    )
    path.chmod(0o755)
    return str(path)


def collector(laid: HostTree, text: str, code: int = 0) -> StalledCyclesCollector:
    return StalledCyclesCollector(EngineTree(lambda: 500), program(laid, text, code), root=laid.root)


def test_the_engines_processes_are_counted(laid: HostTree) -> None:
    source = collector(laid, GOOD)
    assert asyncio.run(source.collect(3.0)) == [
        Sample("trimtab_engine_stalled_cycles_ratio", 0.2, 3.0, labels(kind="frontend"))
    ]
    assert source.notes == ("stalled-cycles-backend: not supported",)
    asked = (laid.root / "asked").read_text()
    assert "-p 500,512 --timeout 1000" in asked


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        (
            "Error:\nAccess to performance monitoring is limited.",
            255,
            r"perf_event_paranoid is 3\): run Trimtab as",
        ),
        ("Error: No permission to enable cycles event.", 255, "not allowed to count"),
        (GOOD.replace("1000,,", "<not supported>,,"), 0, "does not count stalled cycles"),
        ("", 129, "exit code 129, and nothing printed"),
        ("what is this", 0, "exit code 0: what is this"),
        ("Error: unknown option `timeout'", 129, "exit code 129: Error: unknown option"),
    ],
)
def test_a_refusal_names_its_reason(laid: HostTree, text: str, code: int, reason: str) -> None:
    with pytest.raises(CollectorError, match=reason):
        asyncio.run(collector(laid, text, code).collect(3.0))


@pytest.mark.parametrize("count", ["0", "<not counted>"])
def test_an_idle_engine_has_no_ratio(laid: HostTree, count: str) -> None:
    text = f"{count},,stalled-cycles-frontend,1\n{count},,stalled-cycles-backend,1\n{count},,cycles,1\n"
    assert asyncio.run(collector(laid, text).collect(3.0)) == []


def test_no_engine_runs_nothing(laid: HostTree) -> None:
    source = StalledCyclesCollector(EngineTree(lambda: None), program(laid, GOOD), root=laid.root)
    assert asyncio.run(source.collect(3.0)) == []
    assert not (laid.root / "asked").exists()


def test_a_missing_program_and_one_that_hangs(laid: HostTree) -> None:
    source = StalledCyclesCollector(EngineTree(lambda: 500), str(laid.root / "none"), root=laid.root)
    with pytest.raises(CollectorError, match="none: not found"):
        asyncio.run(source.collect(3.0))
    path = laid.root / "hang"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    slow = StalledCyclesCollector(EngineTree(lambda: 500), str(path), root=laid.root, timeout_seconds=0.2)
    with pytest.raises(CollectorError, match=r"hang: no answer within 0\.2 s"):
        asyncio.run(slow.collect(3.0))


@pytest.mark.skipif(shutil.which("perf") is None, reason="no perf on this machine")
def test_the_real_perf_gives_a_share_or_a_reason() -> None:
    source = StalledCyclesCollector(EngineTree(os.getpid), seconds=0.1)
    try:
        found = asyncio.run(source.collect(3.0))
    except CollectorError as failure:
        assert str(failure).startswith("perf: ")
        return
    for sample in found:
        assert isinstance(sample.value, float) and 0 <= sample.value <= 1
