"""Each part of the engine has its own figure of memory."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from collectors.host.engine_processes import EngineProcessesCollector
from collectors.host.tree import EngineTree
from collectors.sample import Sample, labels
from sim.host_tree import HostTree, status_text


def collect(collector: EngineProcessesCollector) -> list[Sample]:
    return asyncio.run(collector.collect(5.0))


def test_memory_by_part_and_kind(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.process(500, "vllm")
    for pid in (511, 512):
        tree.process(pid, "pt_data_worker", 500)
        tree.write(f"/proc/{pid}/status", status_text(rss_kb=(1000, 200, 50)))
    found = collect(EngineProcessesCollector(EngineTree(lambda: 500), root=tmp_path))
    own = labels(process="pt_data_worker", kind="shared")
    assert Sample("trimtab_engine_process_memory_bytes", 100 * 1024.0, 5.0, own) in found
    assert Sample("trimtab_engine_processes", 2.0, 5.0, labels(process="pt_data_worker")) in found
    assert Sample("trimtab_engine_processes", 1.0, 5.0, labels(process="main")) in found


def test_an_old_kernel_has_no_kinds(tmp_path: Path) -> None:
    tree = HostTree(tmp_path)
    tree.process(500, "vllm")
    tree.write("/proc/500/status", "Name:\tvllm\nVmRSS:\t  800 kB\n")
    found = collect(EngineProcessesCollector(EngineTree(lambda: 500), root=tmp_path))
    assert [sample.name for sample in found] == ["trimtab_engine_processes"]


def test_no_engine_no_samples_and_a_note_that_says_what_to_do(tmp_path: Path) -> None:
    collector = EngineProcessesCollector(EngineTree(lambda: None), root=tmp_path)
    assert collect(collector) == []
    assert "trimtab serve" in collector.notes[0]


def test_this_process() -> None:
    collector = EngineProcessesCollector(EngineTree(os.getpid))
    found = {sample.labels: sample.value for sample in collect(collector) if "memory" in sample.name}
    private = found[labels(process="main", kind="private")]
    assert isinstance(private, float) and private > 1e6
    assert collector.notes == ()
