"""What Trimtab's sources would say of a troubled replica, source by source, with the noise of real readings.

The engine's page, the table of `npu-smi info` and the log's lines are read by the collectors' own parsers. The rest is
given as canonical samples: clocks, interrupts, threads, memory by node, governors and the allocator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from collectors.engines.vllm import parse_vllm
from collectors.logs.catalogue import catalogue
from collectors.logs.events import events_of
from collectors.logs.tally import Tally
from collectors.npu_smi.samples import table_samples
from collectors.npu_smi.table import parse_table
from collectors.sample import CollectorError, Labels, Sample, labels
from sim.device import RATED_MEGAHERTZ
from sim.faults.host import CPUS, CPUS_PER_NODE, FAR_NODE, NEAR_NODE, NODES, USUAL_GOVERNOR
from sim.faults.node import TroubledNode
from sim.scenario import stream

MIB, GIB = 1024.0**2, 1024.0**3
HERTZ = 1e6
CARD_MODEL = "910B4"
PROCESSES: Mapping[str, int] = {"APIServer": 60, "EngineCore": 40, "Worker": 180}
"""Threads of the engine's processes."""
RESIDENT_GIB: Mapping[str, float] = {"APIServer": 2.0, "EngineCore": 4.0, "Worker": 18.0}
HOST_GIB, HOST_FREE_GIB = 768.0, 560.0
ALLOCATED_GIB = 27.5
USUAL_INTERRUPTS_PER_TOKEN = 2.5
STRAY_SHARE = 0.04
"""Threads that are seen far from the cards on a healthy host: the kernel moves some for a moment."""
DRIFT_LASTS_SECONDS = 1800.0


class ReplicaReadings:
    """The sources of one node; each gives its samples at a time, or raises `CollectorError` where it fails."""

    def __init__(self, node: TroubledNode) -> None:
        self._node = node
        self._rng = stream(node.seed, "sources")
        self._tally = Tally()
        self._cards = [labels(npu=str(n), chip="0", name=CARD_MODEL) for n in range(len(node.cards))]
        self._interrupts = [0.0] * len(node.cards)
        self._off_node = [0.0] * len(node.cards)
        self._counted: tuple[float, int] | None = None
        self._drift: dict[str, tuple[float, float]] = {}
        self.sources: Mapping[str, tuple[float, Callable[[float], list[Sample]]]] = {
            "vllm": (5.0, self.engine),
            "npu_smi": (10.0, self.table),
            "npu_smi_details": (30.0, self.details),
            "logs": (5.0, self.logs),
            "host": (15.0, self.host),
            "engine_threads": (15.0, self.threads),
            "engine_pages": (60.0, self.pages),
            "interrupts": (15.0, self.interrupts),
            "host_settings": (60.0, self.settings),
            "torch_npu": (30.0, self.allocator),
        }
        """By name: how often it is read (seconds), and what reads it."""

    def fails(self, share: float) -> bool:
        """Whether this reading is one of the few that fail for no reason of the replica."""
        return bool(self._rng.random() < share)

    def engine(self, now: float) -> list[Sample]:
        """The engine's own page."""
        if self._node.control.down:
            raise CollectorError("http://127.0.0.1:8000/metrics: connection refused")
        return parse_vllm(self._node.metrics_text(), now)

    def table(self, now: float) -> list[Sample]:
        """The table of `npu-smi info`."""
        return table_samples(parse_table(self._node.npu_smi_info()), now)

    def details(self, now: float) -> list[Sample]:
        """Clocks, HBM bandwidth and NUMA node of each card."""
        found = []
        for own, card in zip(self._cards, self._node.cards, strict=True):
            found += [
                Sample("npu_aicore_frequency_hertz", card.megahertz * HERTZ, now, own),
                Sample("npu_aicore_rated_frequency_hertz", RATED_MEGAHERTZ * HERTZ, now, own),
                Sample("npu_hbm_bandwidth_usage_ratio", round(card.bandwidth, 2), now, own),
                Sample("npu_hbm_temperature_celsius", float(round(card.celsius - 3.0)), now, own),
                Sample("npu_numa_node", float(NEAR_NODE), now, own),
            ]
        return found

    def logs(self, now: float) -> list[Sample]:
        """The engine's log, line by line."""
        lines, self._node.log = self._node.log, []
        if lines:
            self._tally.add("engine", "/var/log/engine.log", events_of(lines, catalogue()), now)
        return self._tally.samples(now)

    def host(self, now: float) -> list[Sample]:
        """Memory and CPU time of the host and of the engine's processes."""
        node = self._node
        cached = self._wander("page cache", 3.0, now)
        resident = self._resident(now)
        free = HOST_FREE_GIB - sum(resident.values()) - cached
        found = [
            Sample("trimtab_host_cpus", float(CPUS), now),
            Sample("trimtab_host_cpu_usage_ratio", 0.12 + 0.02 * float(self._rng.random()), now),
            Sample("trimtab_host_memory_total_bytes", HOST_GIB * GIB, now),
            Sample("trimtab_host_memory_available_bytes", free * GIB, now),
        ]
        if not node.control.down or node.starting:
            found.append(Sample("trimtab_engine_process_resident_bytes", sum(resident.values()) * GIB, now))
            found += [
                Sample(
                    "trimtab_engine_processes", 4.0 if name == "Worker" else 1.0, now, labels(process=name)
                )
                for name in PROCESSES
            ]
        return found

    def threads(self, now: float) -> list[Sample]:
        """Where the engine's threads run."""
        if self._node.control.down:
            return []
        astray = self._node.troubled.astray(self._node.tended.values)
        found = []
        for name, count in PROCESSES.items():
            far = int(self._rng.binomial(count, min(1.0, max(astray, STRAY_SHARE))))
            for place, threads in ((NEAR_NODE, count - far), (FAR_NODE, far)):
                own = labels(process=name, node=str(place))
                found.append(Sample("trimtab_engine_threads", float(threads), now, own))
            found.append(Sample("trimtab_engine_threads_off_npu_node", float(far), now, labels(process=name)))
        return found

    def pages(self, now: float) -> list[Sample]:
        """Where the engine's memory lies."""
        if self._node.control.down:
            return []
        values = self._node.tended.values
        place = values["memory"].partition(":")[2]
        off = (0.0 if int(place) == NEAR_NODE else 1.0) if place else self._node.troubled.astray_share
        found = []
        for name, gib in self._resident(now).items():
            for number, share in ((NEAR_NODE, 0.97 * (1.0 - off) + 0.01), (FAR_NODE, 0.97 * off + 0.01)):
                own = labels(process=name, kind="private", node=str(number))
                found.append(Sample("trimtab_engine_memory_on_node_bytes", gib * share * GIB, now, own))
        return found

    def interrupts(self, now: float) -> list[Sample]:
        """Interrupts of the cards since the host started, and where they are led."""
        node = self._node
        storm = node.troubled.storming(node.tended.values)
        before = self._counted or (now - 15.0, node.engine.generation_tokens)
        seconds, tokens = now - before[0], node.engine.generation_tokens - before[1]
        self._counted = (now, node.engine.generation_tokens)
        culprit = node.fault.card if node.fault is not None else 0
        found = []
        for index, own in enumerate(self._cards):
            usual = float(
                self._rng.poisson(
                    max(0.0, USUAL_INTERRUPTS_PER_TOKEN * tokens / len(self._cards) + 2 * seconds)
                )
            )
            extra = float(self._rng.poisson(storm * seconds)) if index == culprit and storm else 0.0
            stray = float(self._rng.binomial(int(usual), 0.01))
            self._interrupts[index] += usual + extra
            self._off_node[index] += stray + extra
            led = 3.0 if index == culprit and storm else 0.0
            found += [
                Sample("npu_interrupts_total", self._interrupts[index], now, own),
                Sample("npu_interrupts_off_node_total", self._off_node[index], now, own),
                Sample("npu_interrupts_led_off_node", led, now, own),
            ]
        far = sum(self._off_node)
        for number, count in ((NEAR_NODE, sum(self._interrupts) - far), (FAR_NODE, far)):
            own = labels(handler="cq_update_irq", node=str(number))
            found.append(Sample("trimtab_host_npu_interrupts_total", count, now, own))
        return found

    def settings(self, now: float) -> list[Sample]:
        """Governors, NUMA balancing and the nodes' memory."""
        node = self._node
        governor = node.tended.values["cpu_governor"]
        asleep = round(node.troubled.asleep(node.tended.values) * CPUS)
        counts = {USUAL_GOVERNOR: CPUS - asleep, governor: asleep} if asleep else {USUAL_GOVERNOR: CPUS}
        found = [
            Sample("trimtab_host_cpus_by_governor", float(count), now, labels(governor=name))
            for name, count in counts.items()
            if count
        ]
        found.append(Sample("trimtab_host_numa_balancing", 0.0, now))
        for number in range(NODES):
            own = labels(node=str(number))
            free = HOST_FREE_GIB / NODES + self._wander(f"node {number}", 1.0, now)
            found += [
                Sample("trimtab_host_numa_node_cpus", float(CPUS_PER_NODE), now, own),
                Sample("trimtab_host_numa_node_memory_total_bytes", HOST_GIB / NODES * GIB, now, own),
                Sample("trimtab_host_numa_node_memory_free_bytes", free * GIB, now, own),
            ]
        return found

    def allocator(self, now: float) -> list[Sample]:
        """What PyTorch's allocator holds and has given out, of each card."""
        if self._node.control.down:
            return []
        found = []
        for index in range(len(self._node.cards)):
            own: Labels = labels(device=str(index))
            given = ALLOCATED_GIB + float(self._rng.normal(0.0, 0.03))
            share = self._node.fragmented + self._wander(f"allocator {index}", 0.006, now)
            found += [
                Sample("npu_allocator_reserved_bytes", given / (1.0 - share) * GIB, now, own),
                Sample("npu_allocator_allocated_bytes", given * GIB, now, own),
            ]
        return found

    def _resident(self, now: float) -> dict[str, float]:
        """GiB of host memory by process."""
        leaked = self._node.leaked_rss_mib / 1024.0
        return {
            name: gib * (1.0 + self._wander(f"resident {name}", 0.006, now))
            + (leaked if name == "EngineCore" else 0.0)
            for name, gib in RESIDENT_GIB.items()
        }

    def _wander(self, name: str, spread: float, now: float) -> float:
        """A figure that comes and goes slowly around zero, with this standard deviation."""
        before, value = self._drift.get(name, (now, spread * float(self._rng.normal())))
        kept = math.exp((before - now) / DRIFT_LASTS_SECONDS)
        value = value * kept + spread * math.sqrt(1.0 - kept * kept) * float(self._rng.normal())
        self._drift[name] = (now, value)
        return value
