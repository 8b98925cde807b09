"""npu-smi on this host: one question at a time, and what its table told of the devices."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from collectors.command import CommandOutput, run_command
from collectors.npu_smi.table import Chip, Table, TableError, parse_table
from collectors.npu_smi.topology import parse_topology
from collectors.sample import CollectorError, Labels, Sample, labels

MAX_BYTES = 256 * 1024
"""64 chips with eight processes each print a fifth of it."""


@dataclass(frozen=True, slots=True)
class Device:
    """Who a chip is, by the table.

    `numbered` tells whether the NPU's chips have numbers (950 has none to ask for), `pids` which processes the
    table lists on it.
    """

    npu: str
    chip: str
    name: str | None
    layout: str
    phy_id: str | None = None
    bus_id: str | None = None
    pids: frozenset[str] = frozenset()

    @property
    def numbered(self) -> bool:
        """Whether the chip has a number of its own (`-c`)."""
        return self.layout != "C"

    @property
    def watch_shows_hbm(self) -> bool | None:
        """Whether `info watch` means the HBM by memory; on 310, 310P and 910A it means the DDR memory.

        None where the table could not say which model it is.
        """
        if self.layout == "B":
            model = None if self.name is None else self.name.upper().removeprefix("ASCEND").strip()
            return None if model is None else model.startswith("910B")
        return self.layout in ("B'", "C")

    def labels(self) -> Labels:
        """The labels that all samples of this chip carry."""
        known = {} if self.name is None else {"name": self.name}
        return labels(npu=self.npu, chip=self.chip, **known)


Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Answer(Generic[Said]):
    """What npu-smi said, its exit code, and how many seconds the question waited for its turn."""

    said: Said
    code: int
    waited: float


class NpuSmi:
    """The program behind all npu-smi sources.

    `command` is the argument list before `info`, never a shell's text. A full query of eight cards takes about
    5.4 s: an answer later than `timeout_seconds` is an error, and the child and what it started are killed.
    """

    def __init__(self, command: Sequence[str] = ("npu-smi",), *, timeout_seconds: float = 12.0) -> None:
        if not command:
            raise ValueError("the command of npu-smi is empty")
        self.command = tuple(command)
        self.timeout_seconds = timeout_seconds
        self.devices: tuple[Device, ...] = ()
        self.near_cpus: Mapping[Device, tuple[int, ...]] = {}
        """The CPUs near a chip, where `-t topo` shows them."""
        self.watched: frozenset[tuple[str, Labels]] = frozenset()
        """Series that the watch stream gives now, which slower sources leave to it."""
        self._asked = False
        self._topology_asked = False
        self._lock = asyncio.Lock()

    @property
    def name(self) -> str:
        """The program as errors name it."""
        return self.command[0]

    async def query(self, *arguments: str) -> Answer[str]:
        """Run `info` with these arguments when no other question is being answered; raises CollectorError."""
        async with self._turn() as waited:
            output = await self._run(*arguments)
            return Answer(output.text, output.code, waited)

    async def table(self) -> Answer[Table]:
        """Read the table of `info` and learn the devices from it; raises CollectorError."""
        async with self._turn() as waited:
            table, code = await self._table()
            return Answer(table, code, waited)

    async def learn(self) -> None:
        """Read the table if nobody has yet; a failure is left to who reads it for its figures."""
        if self._asked:
            return  # without a wait for whoever is asking now
        async with self._lock:
            if not self._asked:
                with contextlib.suppress(CollectorError):
                    await self._table()

    async def learn_topology(self) -> tuple[str, ...]:
        """Ask once which CPUs are near which chip; the notes tell what could not be read of it."""
        if self._topology_asked:
            return ()
        self._topology_asked = True
        try:
            topology = parse_topology((await self.query("-t", "topo")).said)
        except CollectorError as failure:
            return (f"-t topo: {failure}",)
        near = ((self._named(name), cpus) for name, cpus in topology.cpus.items())
        self.near_cpus = {device: cpus for device, cpus in near if device is not None}
        return tuple(f"-t topo: {note}" for note in topology.notes) if topology.devices else ()

    def _named(self, name: str) -> Device | None:
        """The chip that the matrix calls so; `NPU0` says nothing of a card of two chips."""
        if name.upper().startswith("NPU"):
            return self.device(name[3:], None)
        return next((one for one in self.devices if name.upper() == f"PHY-ID{one.phy_id}"), None)

    def device(self, npu: str, chip: str | None) -> Device | None:
        """The chip of that number; an NPU whose chip is not named is meant if it has one only."""
        found = [one for one in self.devices if one.npu == npu and chip in (None, one.chip)]
        return found[0] if len(found) == 1 else None

    def not_watched(self, samples: Iterable[Sample]) -> list[Sample]:
        """The samples of series that the watch stream does not give now."""
        return [sample for sample in samples if (sample.name, sample.labels) not in self.watched]

    async def _run(self, *arguments: str) -> CommandOutput:
        return await run_command(
            (*self.command, "info", *arguments), timeout_seconds=self.timeout_seconds, max_bytes=MAX_BYTES
        )

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[float]:
        """Until no other question is being answered; gives the seconds that took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._lock:
            yield loop.time() - began

    async def _table(self) -> tuple[Table, int]:
        self._asked = True
        output = await self._run()
        try:
            table = parse_table(output.text, output.code)
        except TableError as failure:
            suffix = f" (exit code {output.code})" if output.code else ""
            raise CollectorError(f"{self.name}: {failure}{suffix}") from failure
        self.devices = tuple(device_of(chip, table) for chip in table.chips)
        return table, output.code


def device_of(chip: Chip, table: Table) -> Device:
    """Who a chip of the table is."""
    pids = (one.pid for one in table.processes if (one.npu, one.chip) == (chip.npu, chip.chip))
    return Device(chip.npu, chip.chip, chip.name, table.layout, chip.phy_id, chip.bus_id, frozenset(pids))
