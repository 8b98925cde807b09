"""The host's own figures are plausible, and a file system that hangs is told without hanging the loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from collectors.history import History
from collectors.host.host import HostCollector
from collectors.host.tree import EngineTree
from collectors.sample import CollectorError, Sample
from sim.host_tree import HostTree, stat_line

NOW = 1_700_000_000.0


def collect(collector: HostCollector) -> dict[str, float]:
    return {sample.name: number(sample) for sample in asyncio.run(collector.collect(NOW))}


def number(sample: Sample) -> float:
    assert isinstance(sample.value, float)
    return sample.value


def test_the_host_is_read(tmp_path: Path) -> None:
    found = collect(HostCollector([tmp_path]))
    assert 0.0 <= found["trimtab_host_cpu_usage_ratio"] <= 1.0
    assert 0 < found["trimtab_host_memory_available_bytes"] <= found["trimtab_host_memory_total_bytes"]
    assert 0 <= found["trimtab_host_disk_free_bytes"] < found["trimtab_host_disk_total_bytes"]
    assert found["trimtab_host_cpus"] >= 1
    assert "trimtab_engine_process_resident_bytes" not in found


def test_the_second_reading_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = HostCollector()
    collect(collector)
    monkeypatch.delattr(time, "sleep")
    assert "trimtab_host_cpus" in collect(collector)


def test_a_path_that_is_not_there_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    collector = HostCollector([tmp_path / "gone", tmp_path])
    assert "trimtab_host_disk_free_bytes" in collect(collector)
    assert collector.notes == (f"{tmp_path}/gone: No such file or directory",)


def test_the_engines_processes_are_added_up() -> None:
    code = "import subprocess as s, sys; p = s.Popen(['sleep', '60']); print(flush=True); sys.stdin.read(); p.kill()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as engine:
        assert engine.stdout is not None and engine.stdin is not None
        engine.stdout.readline()
        found = collect(HostCollector(tree=EngineTree(lambda: engine.pid)))
        alone = psutil.Process(engine.pid).memory_info().rss
        engine.stdin.close()
    assert found["trimtab_engine_process_resident_bytes"] > alone
    assert found["trimtab_engine_process_threads"] >= 2
    assert found["trimtab_engine_process_cpu_seconds_total"] > 0


def test_the_time_of_a_child_that_ended_stays_in_the_sum() -> None:
    busy = "import time\\nwhile time.process_time() < 0.4: pass"
    code = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{busy}']);"
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as engine:
        assert engine.stdout is not None and engine.stdin is not None
        engine.stdout.readline()
        found = collect(HostCollector(tree=EngineTree(lambda: engine.pid)))
        own = psutil.Process(engine.pid).cpu_times()
        engine.stdin.close()
    assert found["trimtab_engine_process_cpu_seconds_total"] > own.user + own.system + 0.3


def test_a_small_child_that_ends_is_no_reset_of_the_counter(tmp_path: Path) -> None:
    laid, history = HostTree(tmp_path), History()
    collector = HostCollector(tree=EngineTree(lambda: 10), root=tmp_path)
    laid.process(10, "vllm")
    for pid, seconds in ((11, 50_000.0), (12, 1.0)):
        laid.write(f"/proc/{pid}/stat", stat_line(pid, "python", 10, cpu_seconds=seconds))
    for step in range(6):
        if step == 3:
            laid.write("/proc/12/stat", stat_line(12, "python", 10, cpu_seconds=1.0, state="Z"))
        history.add(asyncio.run(collector.collect(NOW + 5.0 * step)), "host")
    assert history.rate("trimtab_engine_process_cpu_seconds_total", NOW + 25.0, 25.0) == 0.0


def test_an_engine_that_is_gone_is_absent() -> None:
    engine = subprocess.Popen(["true"])
    engine.wait()
    found = collect(HostCollector(tree=EngineTree(lambda: engine.pid)))
    assert "trimtab_engine_process_resident_bytes" not in found
    assert "trimtab_host_cpus" in found
    assert "trimtab_engine_process_threads" not in collect(HostCollector(tree=EngineTree(lambda: None)))
    assert "trimtab_engine_process_threads" in collect(HostCollector(tree=EngineTree(os.getpid)))


def test_a_dead_file_system_costs_one_thread_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    mended = threading.Event()
    real = psutil.disk_usage

    def hang(path: str) -> object:
        assert mended.wait(10)
        return real(path)

    monkeypatch.setattr(psutil, "disk_usage", hang)
    collector = HostCollector()

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await collector.collect(NOW)
        with pytest.raises(CollectorError, match="still hangs; is a file system of / dead"):
            await collector.collect(NOW)
        mended.set()
        assert collector._blocking.finished is not None
        await asyncio.to_thread(collector._blocking.finished.wait, 10)
        assert await collector.collect(NOW)

    asyncio.run(scenario())


def test_figures_that_cannot_be_read_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> object:
        raise PermissionError(13, "Permission denied", "/proc/meminfo")

    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    with pytest.raises(CollectorError, match=r"cannot be read: .*Permission denied"):
        asyncio.run(HostCollector().collect(NOW))
