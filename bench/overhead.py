"""What watching costs: CPU of one collection pass of a large node, and memory over a week of samples.

`trimtab bench overhead [--json]`. The node is 64 chips and two engines with pages of 600 samples, every source on that
its shape has: npu-smi in the node shape, npu-exporter in the sidecar's. CPU is this process's own: what npu-smi and the
engines spend is theirs. Passes are measured after a pause, as the daemon makes them, and one after the other; so is a
piece of plain work, for on some machines whatever paused is several times slower. In the week, samples come at their
sources' own pace in the first hour and at the end; before that no more often than the history keeps them (one in 10 s
for two hours, one a minute for a day), which leaves the same rows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

import psutil

from collectors.history import History
from collectors.metrics import METRICS
from collectors.npu_exporter.npu_exporter_links import SHARES, NpuExporterLinksCollector
from collectors.runner import Runner
from collectors.sample import Distribution, Sample
from daemon import assembly, log, paths
from daemon.config import Config

Shape = Literal["node", "sidecar"]
CHIPS = 64
ENGINES = 2
WARM_UP_PASSES = 3
PASSES = 14
PASS_SECONDS = 10.0
"""Between two passes: what is due every two minutes falls due among them."""
WATCH_SECONDS = 2.5
"""In which npu-smi's watch gives its first rows."""
FED_SECONDS = 900.0
FED_BEFORE_SECONDS = 13 * 3600.0
"""Figures of which half a day counts are fed for longer, once a minute."""
HOUR = 3600.0
DAY = 24 * HOUR
PACES = ((0.3 * HOUR, 0.0), (2.2 * HOUR, 10.0), (25 * HOUR, 60.0))
"""Hours before the end, and seconds between two readings within them: finer ones leave no row."""
SLOWEST_PACE = 240.0


@dataclass(frozen=True, slots=True)
class Source:
    """One source of a pass: how many samples it gave, and its CPU in milliseconds (median)."""

    name: str
    samples: int
    cpu_ms: float
    error: str | None = None


@dataclass(slots=True)
class Overhead:
    """The figures: milliseconds of CPU, MiB."""

    shape: Shape = "node"
    passes: int = 0
    pass_cpu_ms: float = 0.0
    pass_cpu_ms_worst: float = 0.0
    pass_cpu_ms_at_once: float = 0.0
    """Without a pause before it."""
    sources: list[Source] = field(default_factory=list)
    days: float = 0.0
    series: int = 0
    rows_held: int = 0
    rss_first_mib: float = 0.0
    rss_hour_mib: float = 0.0
    rss_end_mib: float = 0.0

    @property
    def growth_mib(self) -> float:
        """From the end of the first hour, the warm-up, to the end."""
        return self.rss_end_mib - self.rss_hour_mib


@contextlib.contextmanager
def node(shape: Shape, chips: int = CHIPS, engines: int = ENGINES) -> Iterator[Config]:
    """A configuration with every source of such a node, which lives in a process of its own meanwhile."""
    with tempfile.TemporaryDirectory(prefix="trimtab-overhead-") as scratch:
        folder = Path(scratch)
        with subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-m", "bench.node_stand", scratch, str(chips), str(engines)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as stand:
            assert stand.stdin is not None and stand.stdout is not None
            there: dict[str, Any] = json.loads(stand.stdout.readline())
            os.environ[paths.ENGINE_PID_VARIABLE] = str(stand.pid)  # as under `trimtab serve`
            try:
                yield everything(shape, folder, there)
            finally:
                del os.environ[paths.ENGINE_PID_VARIABLE]
                stand.stdin.close()


def everything(shape: Shape, folder: Path, there: dict[str, Any]) -> Config:
    """Every source on that the shape has."""
    first, *further = there["engines"]
    return Config.model_validate(
        {
            "deployment": shape,
            "engine": {"url": first, "run_dir": str(folder / "run")},
            "collect": {
                "npu_smi": {"command": there["npu_smi"]},
                "npu_exporter": {"url": there["npu_exporter"] if shape == "sidecar" else None},
                "engines": [{"name": f"engine-{k}", "url": url} for k, url in enumerate(further, 1)],
                "logs": {"ascend_dir": str(folder / "ascend"), "engine": [there["log"]]},
            },
            "store": {"url": f"sqlite:///{folder}/trimtab.db"},
        }
    )


async def passes(
    runner: Runner, count: int, pause_seconds: float
) -> tuple[list[float], list[float], list[Source]]:
    """CPU milliseconds of whole passes after a pause and at once, and of each source alone."""
    for _ in range(WARM_UP_PASSES):
        await runner.once(time.time())
    await asyncio.sleep(WATCH_SECONDS)
    paused = [await _whole(runner, pause_seconds) for _ in range(count)]
    at_once = [await _whole(runner, 0.0) for _ in range(count)]
    alone: list[Source] = []
    for name in runner.names:
        taken: list[float] = []
        samples: list[Sample] = []
        for _ in range(count):
            began = time.process_time()
            samples = await runner.once(time.time(), name)
            taken.append(1e3 * (time.process_time() - began))
        failed = next((one.error for one in runner.health() if one.name == name), None)
        alone.append(Source(name, len(samples), median(taken), failed))
    return paused, at_once, alone


async def _whole(runner: Runner, pause_seconds: float) -> float:
    await asyncio.sleep(pause_seconds)
    began = time.process_time()
    await runner.once(time.time())
    return 1e3 * (time.process_time() - began)


def yardstick(count: int, pause_seconds: float) -> tuple[float, float]:
    """CPU milliseconds of the same plain work after a pause, and at once: what a pause costs on this machine."""
    source = Path(argparse.__file__).read_text()
    paused: list[float] = []
    at_once: list[float] = []
    for _ in range(count):
        time.sleep(pause_seconds)
        for taken in (paused, at_once):
            began = time.process_time()
            compile(source, "argparse", "exec")
            taken.append(1e3 * (time.process_time() - began))
    return median(paused), median(at_once)


def feed(history: History, samples: dict[str, list[Sample]], intervals: dict[str, float], end: float) -> None:
    """Give a history half a day of these samples before `end`, so that figures can be derived of it."""
    start = end - FED_BEFORE_SECONDS
    for name, found in samples.items():
        # Single links are kept for an hour only, and nothing is derived of them.
        lasting = [sample for sample in found if not METRICS[sample.name].detail]
        for step in range(int((FED_BEFORE_SECONDS - FED_SECONDS) / 60.0)):
            now = start + step * 60.0
            history.add([_later(sample, now, now - start) for sample in lasting], name)
        steps = int(FED_SECONDS / intervals[name])
        for step in range(steps):
            now = end - (steps - step) * intervals[name]
            history.add([_later(sample, now, now - start) for sample in found], name)


def week(
    figures: Overhead, samples: dict[str, list[Sample]], intervals: dict[str, float], days: float
) -> None:
    """Feed a history with so many days of these samples, and note the memory."""
    history = History()
    start = 1_700_000_000.0
    end = start + days * DAY
    due = dict.fromkeys(samples, start)
    now = start
    hour_seen = False
    while now < end:
        pace = 0.0 if now - start < HOUR else next((p for left, p in PACES if end - now < left), SLOWEST_PACE)
        for name, found in samples.items():
            if due[name] <= now:
                history.add([_later(sample, now, now - start) for sample in found], name)
                due[name] = now + max(pace, intervals[name])
        if now == start:
            figures.rss_first_mib = _rss()
        if not hour_seen and now - start >= HOUR:
            hour_seen = True
            figures.rss_hour_mib = _rss()
        now = min(due.values())
    figures.days, figures.series, figures.rows_held = days, len(history), history.held_points()
    figures.rss_end_mib = _rss()


def _later(sample: Sample, now: float, age: float) -> Sample:
    value = sample.value
    if isinstance(value, Distribution):
        # Counted on, as an engine's histograms are: a row that repeats would compress to nothing.
        grown = tuple(count + age * (k + 1) for k, count in enumerate(value.counts))
        total = value.sum + age + age * age * 0.618 % 1.0  # means that vary, or no period would be looked for
        value = Distribution(value.bounds, grown, total, value.count + age)
    else:
        value += age % 97.0
    return Sample(sample.name, value, now, sample.labels)


def _rss() -> float:
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 2**20


def node_exporter() -> dict[str, float] | None:
    """CPU milliseconds of one scrape, at the same pace, and MiB of Prometheus's node_exporter; None without one."""
    program = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    if program is None:
        return None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with subprocess.Popen(  # noqa: S603  found on PATH by its name
        [program, f"--web.listen-address=127.0.0.1:{port}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            seen = psutil.Process(child.pid)
            _scrape(port, patience=10.0)
            before = sum(seen.cpu_times()[:2])
            for _ in range(PASSES):
                time.sleep(PASS_SECONDS)
                _scrape(port)
            spent = sum(seen.cpu_times()[:2]) - before
            return {"cpu_ms": 1e3 * spent / PASSES, "rss_mib": seen.memory_info().rss / 2**20}
        finally:
            child.terminate()


def _scrape(port: int, patience: float = 0.0) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + patience
    while True:
        try:
            with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=10.0) as answer:
                answer.read()
            return
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


def measure(
    shape: Shape,
    chips: int = CHIPS,
    count: int = PASSES,
    pause_seconds: float = PASS_SECONDS,
    days: float = 7.0,
) -> Overhead:
    """All figures of one shape."""
    figures = Overhead(shape)
    with node(shape, chips) as config:
        first = assembly.runner(config, History())
        intervals = first.intervals
        if NpuExporterLinksCollector.name in intervals:
            intervals[NpuExporterLinksCollector.name] *= SHARES  # each device is read anew so seldom
        samples = asyncio.run(_what_each_gives(first))
        history = History()
        feed(history, samples, intervals, time.time())
        paused, at_once, figures.sources = asyncio.run(
            passes(assembly.runner(config, history), count, pause_seconds)
        )
    figures.passes, figures.pass_cpu_ms, figures.pass_cpu_ms_worst = count, median(paused), max(paused)
    figures.pass_cpu_ms_at_once = median(at_once)
    week(figures, samples, intervals, days)
    return figures


async def _what_each_gives(runner: Runner) -> dict[str, list[Sample]]:
    await runner.once(time.time())
    await asyncio.sleep(WATCH_SECONDS)
    found = {name: await runner.once(time.time(), name) for name in runner.names}
    return {name: samples for name, samples in found.items() if samples}


def table(figures: Overhead) -> str:
    """The figures for people."""
    lines = [
        f"{figures.shape} shape, one pass, {figures.passes} measured: {figures.pass_cpu_ms:.1f} ms of CPU (median), "
        f"{figures.pass_cpu_ms_worst:.1f} ms at most, {figures.pass_cpu_ms_at_once:.1f} ms one after the other, "
        "without the external commands"
    ]
    for source in figures.sources:
        said = f"  ({source.error})" if source.error else ""
        lines.append(f"  {source.name:<16}{source.cpu_ms:8.2f} ms {source.samples:6d} samples{said}")
    lines.append(
        f"{figures.days:g} days of samples: {figures.series} series, {figures.rows_held} rows; "
        f"RSS {figures.rss_first_mib:.0f} MiB at first, {figures.rss_hour_mib:.0f} after an hour, "
        f"{figures.rss_end_mib:.0f} at the end: {figures.growth_mib:+.0f} MiB since the first hour"
    )
    return "\n".join(lines)


def beside(other: dict[str, float] | None, work: tuple[float, float]) -> str:
    """The machine's and the other exporters' figures for people."""
    paused, at_once = work
    cost = (
        "not installed here"
        if other is None
        else f"one scrape {other['cpu_ms']:.1f} ms of CPU, {other['rss_mib']:.0f} MiB"
    )
    return (
        f"this machine: the same plain work takes {paused:.1f} ms after such a pause and {at_once:.1f} at once "
        f"({paused / at_once:.1f} times)\nnode_exporter: {cost}\nnpu-exporter: not run, it needs NPUs"
    )


def main(arguments: Sequence[str]) -> int:
    """Print the tables, or with --json the figures."""
    log.quiet()  # a source that has nothing to read here says so in the table
    gc.freeze()  # as `trimtab run` does
    found = [measure(shape) for shape in get_args(Shape)]
    other, work = node_exporter(), yardstick(PASSES, PASS_SECONDS)
    if "--json" in arguments:
        shapes = [{**asdict(one), "growth_mib": one.growth_mib} for one in found]
        print(json.dumps({"shapes": shapes, "node_exporter": other, "plain_work_ms": work}))
    else:
        print(*map(table, found), beside(other, work), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
