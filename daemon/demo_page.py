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

from collectors.derived import DerivedCollector
from collectors.engines.kinds import read_page
from collectors.history import History
from collectors.npu_smi.keyed import parse_keyed
from collectors.npu_smi.program import device_of
from collectors.npu_smi.samples import section_samples, table_samples, watch_samples
from collectors.npu_smi.table import parse_table
from collectors.npu_smi.watch import parse_watch
from collectors.runner import Runner
from collectors.sample import Sample, labels
from daemon.config import Config, SloSection, StoreSection, TuneSection, WebSection
from daemon.engine_probe import Probe
from daemon.loops import Daemon
from daemon.sections.engine import EngineSection
from daemon.sections.host_lane import HostSection
from daemon.web_server import listen, local_url
from sim.node import Node
from sim.scenario import SCENARIOS

COLLECT_SECONDS = 2.0
DETAILS_SECONDS = 30.0
"""Simulated seconds between two readings of the node."""
VERSION = "0.32.0"
"""Of the vLLM whose metrics page the simulated engine serves."""
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

    def __init__(self, scenario: str) -> None:
        self._model = f"simulated ({scenario})"

    async def look(self) -> Probe:
        """It is always there."""
        return Probe(True, VERSION, self._model)


def serve_demo(scenario: str, seed: int, minutes: float | None, speed: float, port: int) -> None:
    """Run the demo until it is interrupted; `speed` is simulated seconds a second.

    Raises `UserError` when the port is taken.
    """
    with tempfile.TemporaryDirectory(prefix="trimtab-demo-") as folder:
        asyncio.run(_demo(scenario, seed, minutes, speed, port, Path(folder)))


def demo_runner(node: Node, history: History) -> Runner:
    """What reads the node into a history, and what is derived of it."""
    sources = (NodeEngine(node), NodeCards(node), DerivedCollector(history))
    return Runner(sources, history, clock=lambda: node.now)


async def _demo(
    scenario: str, seed: int, minutes: float | None, speed: float, port: int, folder: Path
) -> None:
    chosen = SCENARIOS[scenario]
    start = time.time()
    node = Node(chosen, seed, start)
    config = Config(
        mode="act",
        engine=EngineSection(url="http://simulated.invalid", run_dir=folder),
        host=HostSection(knobs=[]),  # nothing of the real one
        slo=SloSection(**dict(chosen.slo)),
        tune=TuneSection.model_validate(
            {
                "objective": {"name": chosen.objective, "quantile": chosen.quantile},
                "knobs": None if node.host is None else list(chosen.knobs),
                "min_effect": chosen.min_effect,
                "minutes": minutes or chosen.minutes,
            }
        ),
        store=StoreSection(url=f"sqlite:///{folder / 'demo.db'}"),
        web=WebSection(port=port),
    )

    def clock() -> float:
        return node.now

    with contextlib.closing(listen(config.web)) as listening:
        daemon = Daemon(
            config,
            node.control,
            NodeProbe(scenario),
            clock,
            partial(demo_runner, node),
            lambda: seed,
            tried_host=node.host,
        )
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
            await _live(node, daemon, speed)
        finally:
            daemon.stop.set()
            await pages


async def _live(node: Node, daemon: Daemon, speed: float) -> None:
    """One simulated second after the other, kept to the wall clock times `speed`."""
    began, first = time.monotonic(), node.now
    read = 0.0
    started = False
    while not daemon.stop.is_set():
        node.advance(node.now + 1.0)
        if node.now - read >= COLLECT_SECONDS:
            read = node.now
            await daemon.read(node.now)
        await daemon.second(node.now)
        if not started and node.now - first >= SETTLE_SECONDS:
            started = True
            await daemon.body.tune("act", None)
        ahead = (node.now - first) / speed - (time.monotonic() - began)
        if ahead > 0.02:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(daemon.stop.wait(), ahead)
        else:
            await asyncio.sleep(0)
