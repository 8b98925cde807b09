"""`trimtab demo`: a simulated node under the real daemon's parts, faster than life, with its pages to look at."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import tempfile
import time
from functools import partial
from pathlib import Path

from change.engine import EngineControl
from change.host_knobs import HOST_KNOBS
from change.journal import Journal
from change.lock import EngineLock
from collectors.derived import DerivedCollector
from collectors.engines.kinds import read_page
from collectors.history import History
from collectors.npu_smi.keyed import parse_keyed
from collectors.npu_smi.program import device_of
from collectors.npu_smi.samples import section_samples, table_samples, watch_samples
from collectors.npu_smi.table import parse_table
from collectors.npu_smi.watch import parse_watch
from collectors.runner import Runner
from collectors.sample import CollectorError, Sample, labels
from daemon import assembly
from daemon.cold import Cold
from daemon.config import CaptureSection, Config, SloSection, StoreSection, TuneSection, WebSection
from daemon.engine_probe import Probe
from daemon.loops import Daemon
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.sections.collect import CollectSection, LogsSource
from daemon.sections.engine import EngineSection
from daemon.sections.host_lane import HostSection
from daemon.simulated_cold import simulated_cold
from daemon.web_server import listen, local_url
from sim.node import Node
from sim.scenario import SCENARIOS, Scenario

COLLECT_SECONDS = 2.0
DETAILS_SECONDS = 30.0
"""Simulated seconds between two readings of the node."""
VERSION = "0.32.0"
"""Of the vLLM whose metrics page the simulated engine serves."""
PATIENCE_SECONDS = 0.05
"""Longest that the node waits, in real seconds, for what the daemon does in one of its seconds."""
HOT_MINUTES = 60.0
"""Of each hot campaign where there are restarts besides: so a whole campaign takes minutes to watch."""
SETTLE_SECONDS = 60.0
"""Simulated seconds before the campaign begins, so that the pages have something to show."""


class NodeEngine:
    """The simulated engine's own metrics page, read as the real one's."""

    name = "vllm"
    interval_seconds = COLLECT_SECONDS

    def __init__(self, node: Node) -> None:
        self._node = node

    async def collect(self, now: float) -> list[Sample]:
        """Parse the page, and say what the engine is."""
        if self._node.control.down:
            raise CollectorError("the engine does not answer")
        page = read_page(self._node.metrics_text(), now, "vllm")
        return page.samples + [
            Sample(
                "trimtab_engine_info",
                1.0,
                now,
                labels(kind="vllm", role="both", version=VERSION, **dict(rank)),
            )
            for rank in page.ranks()
        ]


class NodeCards:
    """What the simulated cards' npu-smi prints, read as the real one's."""

    name = "npu_smi"
    interval_seconds = COLLECT_SECONDS

    def __init__(self, node: Node) -> None:
        self._node = node
        self._details: list[Sample] = []
        self._asked = -math.inf

    async def collect(self, now: float) -> list[Sample]:
        """Parse the table and a round of the watch, and the types as rarely as the real ones are asked for."""
        table = parse_table(self._node.npu_smi_info())
        devices = {chip.npu: device_of(chip, table) for chip in table.chips}
        if now - self._asked >= DETAILS_SECONDS:
            self._asked = now
            self._details = [
                sample
                for npu, device in devices.items()
                for text in self._node.npu_smi_details(int(npu))
                for section in parse_keyed(text).sections
                for sample in section_samples(section, device, now)
            ]
        samples = {(one.name, one.labels): one for one in (*self._details, *table_samples(table, now))}
        for row in parse_watch(self._node.npu_smi_watch()).rows:
            found = watch_samples(row, devices.get(row.npu), now)
            samples.update({(one.name, one.labels): one for one in found})
        return list(samples.values())


class NodeProbe:
    """What the simulated engine says of itself."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._model = f"simulated ({node.scenario.name})"

    async def look(self) -> Probe:
        """It is there unless it restarts."""
        if self._node.control.down:
            return Probe(False, None, None)
        return Probe(True, VERSION, self._model)


class SteppedClock:
    """The time of a node that somebody else lets live, a step at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._stepped = asyncio.Event()

    def step(self) -> None:
        """Wake who waits: the node lived on."""
        self._stepped.set()
        self._stepped = asyncio.Event()

    def now(self) -> float:
        """Return the node's Unix seconds."""
        return self._node.now

    async def sleep(self, seconds: float) -> None:
        """Wait until the node has lived for `seconds`."""
        until = self._node.now + seconds
        while self._node.now < until:
            await self._stepped.wait()


def serve_demo(
    scenario: str, seed: int, minutes: float | None, speed: float, port: int, restarts: int | None = None
) -> None:
    """Run the demo until it is interrupted; `speed` is simulated seconds a second, `restarts` None the scenario's own.

    Raises `UserError` when the port is taken.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-demo-") as folder:
        asyncio.run(_demo(scenario, seed, minutes, speed, port, Path(folder), restarts))


def demo_config(
    chosen: Scenario, minutes: float | None, port: int, folder: Path, restarts: int | None
) -> Config:
    """The configuration of a demo: act at once, keep everything in `folder`, touch nothing real."""
    spent = chosen.restarts if restarts is None else restarts
    absent = folder / "nothing"
    return Config(
        deployment="sidecar",  # which reads no npu-smi and no log of the kernel
        mode="act",
        engine=EngineSection(url="http://simulated.invalid", run_dir=folder),
        host=HostSection(knobs=[]),  # nothing of the real one
        slo=SloSection(**dict(chosen.slo)),
        tune=TuneSection.model_validate(
            {
                "objective": {"name": chosen.objective, "quantile": chosen.quantile},
                "knobs": list(chosen.knobs) if any(name in HOST_KNOBS for name in chosen.knobs) else None,
                "min_effect": chosen.min_effect,
                "minutes": minutes or (min(HOT_MINUTES, chosen.minutes) if spent else chosen.minutes),
                "restarts": spent,
                "cold": {"allow": [] if chosen.cold is None else list(chosen.cold.allow)},
            }
        ),
        # Playbooks walk here in earnest: they find no logs and no profiler, and keep what they record in the folder.
        collect=CollectSection(logs=LogsSource(ascend_dir=absent)),
        capture=CaptureSection(folder=folder / "captures", msprof=str(absent)),
        store=StoreSection(url=f"sqlite:///{folder / 'demo.db'}"),
        web=WebSection(port=port),
    )


def demo_daemon(node: Node, config: Config, clock: SteppedClock) -> Daemon:
    """The daemon's own parts beside a node; whoever lets the node live steps the clock."""

    def cold(
        control: EngineControl, journal: Journal, history: History, modes: Modes, notices: Notices
    ) -> Cold:
        def lock(boot_id: str) -> EngineLock:
            return EngineLock(assembly.lock_dir(config), boot_id, "a restart")

        return simulated_cold(node, journal, lock, clock, notices).lane

    return Daemon(
        config,
        node.control,
        NodeProbe(node),
        clock.now,
        partial(demo_runner, node),
        lambda: node.seed,
        cold=None if node.scenario.cold is None else cold,
        tried_host=node.host,
    )


def demo_runner(node: Node, history: History) -> Runner:
    """What reads the node into a history, and what is derived of it."""
    sources = (NodeEngine(node), NodeCards(node), DerivedCollector(history))
    return Runner(sources, history, clock=lambda: node.now)


async def _demo(
    scenario: str,
    seed: int,
    minutes: float | None,
    speed: float,
    port: int,
    folder: Path,
    restarts: int | None,
) -> None:
    chosen = SCENARIOS[scenario]
    node = Node(chosen, seed, time.time())
    config = demo_config(chosen, minutes, port, folder, restarts)
    clock = SteppedClock(node)
    with contextlib.closing(listen(config.web)) as listening:
        daemon = demo_daemon(node, config, clock)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, daemon.stop.set)
        print(
            f"a simulated node at {speed:.0f} times its speed; look at {local_url(listening, '')}/",
            flush=True,
        )
        print("a campaign begins in a moment: see the Trials page; Ctrl-C ends it", flush=True)
        pages = asyncio.create_task(daemon.serve(listening))
        try:
            await live(node, daemon, clock, speed)
        finally:
            daemon.stop.set()
            await pages


async def live(node: Node, daemon: Daemon, clock: SteppedClock, speed: float) -> None:
    """One simulated second after the other, kept to the wall clock times `speed`, until the daemon is stopped."""
    began, first = time.monotonic(), node.now
    read = 0.0
    started = False
    second: asyncio.Task[None] | None = None
    while not daemon.stop.is_set():
        node.advance(node.now + 1.0)
        clock.step()
        if node.now - read >= COLLECT_SECONDS:
            read = node.now
            await daemon.read(node.now)
        await daemon.alert_second(node.now)
        if second is None or second.done():
            if second is not None:
                second.result()
            second = asyncio.create_task(daemon.second(node.now))
        # A restart waits for the node to live on: so the node never waits for what the daemon does.
        await asyncio.wait({second}, timeout=PATIENCE_SECONDS)
        if not started and node.now - first >= SETTLE_SECONDS:
            started = True
            await daemon.body.tune("act", None)
        ahead = (node.now - first) / speed - (time.monotonic() - began)
        if ahead > 0.02:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(daemon.stop.wait(), ahead)
        else:
            await asyncio.sleep(0)
