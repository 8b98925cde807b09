"""Restarts of a real vLLM server under traffic, as a person orders them: `apply --restart` and `rollback`."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.real.patient import PatientTraffic
from tests.real.served import ServedVllm

RATE = 3.0
"""Requests per second."""
PROMPTS = ((128, 0.7), (512, 0.3))
OUTPUTS = (8, 32)
BLOCK_SIZES = (64, 96, 128, 32)
"""What the attention of vLLM's CPU build takes: multiples of 32. With 16 it fails at its start."""
EVERY_ROLLBACK = 6
"""Each sixth restart is a rollback."""
PATIENCE_SECONDS = 900.0
"""How long a client waits before its request counts as lost: a failed start and its way back, on a loaded machine."""
LONGEST_TRAFFIC_SECONDS = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Served:
    """One restart: what was asked, what the engine's own page says of it, and how long users waited (seconds)."""

    order: str
    asked: int
    found: int
    down_seconds: float
    own_seconds: float | None
    seconds: Mapping[str, float]
    wrong: str | None = None


@dataclass
class Restarts:
    """All of them, and what their clients saw."""

    served: list[Served] = field(default_factory=list)
    seconds: float = 0.0
    sent: int = 0
    waited: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether each served what was asked, and nobody lost a request."""
        return not self.failures and all(one.wrong is None and one.asked == one.found for one in self.served)


@asynccontextmanager
async def patient(pair: ServedVllm, seed: int) -> AsyncIterator[PatientTraffic]:
    """Steady traffic of clients that wait out a restart; at the end all their answers are in."""
    traffic = PatientTraffic(
        pair.engine, RATE, seed=seed, patience=PATIENCE_SECONDS, prompts=PROMPTS, outputs=OUTPUTS
    )
    load = asyncio.create_task(traffic.run(LONGEST_TRAFFIC_SECONDS))
    try:
        yield traffic
    finally:
        traffic.end()
        await load


async def restarts(pair: ServedVllm, count: int, seconds: float, seed: int) -> Restarts:
    """Make at least `count` restarts over at least `seconds`."""
    found = Restarts()
    begun = time.monotonic()
    before = [await asyncio.to_thread(pair.block_size)]
    async with patient(pair, seed) as traffic:
        for number in range(count):
            one = await _restart(pair, number, before)
            found.served.append(one)
            say(
                f"{number + 1:2} {one.order}: block size {one.found}, users waited {one.down_seconds:.1f} s"
                f" (Trimtab's own {one.own_seconds or 0:.1f} s), {len(traffic.report.failures)} of"
                f" {traffic.report.sent} requests lost {traffic.report.failures[-2:]}"
                f"{'' if one.wrong is None else ': ' + one.wrong}"
            )
        await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))
    found.seconds = time.monotonic() - begun
    found.sent, found.waited, found.failures = traffic.report.sent, traffic.waits, traffic.report.failures
    return found


async def _restart(pair: ServedVllm, number: int, before: list[int]) -> Served:
    back = number % EVERY_ROLLBACK == EVERY_ROLLBACK - 1
    settings: dict[str, Any] = {}
    if back:
        order = "rollback"
        before.pop()
        asked = before[-1]
        code, told = await asyncio.to_thread(pair.trimtab, "rollback")
    else:
        asked = BLOCK_SIZES[number % len(BLOCK_SIZES)]
        # Ceilings only go up: below the present one the value is set in the running engine.
        name, value = (
            ("max_num_seqs", 33 + number) if number % 2 == 0 else ("batch_max_tokens", 2048 + 64 * number)
        )
        settings = {"block_size": asked, name: value}
        order = f"apply block_size {asked}, {name} {value}"
        code, told = await asyncio.to_thread(lambda: pair.apply(**settings))
        before.append(asked)
    wrong = None
    if code != 0 or not isinstance(told, dict) or told["outcome"] != "done":
        return Served(
            order, asked, await asyncio.to_thread(pair.block_size), 0.0, None, {}, f"exit {code}: {told}"
        )
    effective = told["effective"] or {}
    differing = [f"{k} {effective.get(k)}" for k, v in settings.items() if effective.get(k) != v]
    if differing:
        wrong = f"not as asked: {', '.join(differing)}"
    entry = await asyncio.to_thread(pair.newest)
    found = await asyncio.to_thread(pair.block_size)
    seconds = (entry.get("effective") or {}).get("seconds") or {}
    return Served(order, asked, found, told["down_seconds"], told.get("own_seconds"), seconds, wrong)


def figures(found: Restarts) -> str:
    """The figures on a few lines."""
    done = [one for one in found.served if one.wrong is None]
    own = [one.own_seconds for one in done if one.own_seconds is not None]
    phases = sorted({phase for one in done for phase in one.seconds}, key=_order)
    medians = {p: statistics.median(one.seconds[p] for one in done if p in one.seconds) for p in phases}
    return "\n".join(
        [
            f"{len(done)} of {len(found.served)} restarts served what was asked, in {found.seconds / 60:.1f} minutes;"
            f" {sum(one.asked == one.found for one in done)} with the block size that was asked",
            f"clients: {found.sent} requests, {len(found.failures)} lost {found.failures[:5]}",
            f"longest wait of a client {max(found.waited, default=0.0):.1f} s; gate closed or engine down"
            f" {_spread([one.down_seconds for one in done])}",
            f"of it in Trimtab's own hands {_spread(own)}",
            f"medians by phase, seconds: {', '.join(f'{p} {s:.1f}' for p, s in medians.items())}",
        ]
    )


def _spread(values: list[float]) -> str:
    if not values:
        return "unknown"
    return f"{statistics.median(values):.1f} s at the median, {max(values):.1f} s at most"


def _order(phase: str) -> int:
    names = (
        "gate",
        "drain",
        "stop",
        "release",
        "start",
        "load",
        "health",
        "probe",
        "warm_up",
        "effective",
        "open",
    )
    return names.index(phase) if phase in names else len(names)


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def measured(folder: Path, count: int = 30, seconds: float = 600.0, seed: int = 21) -> bool:
    """Run them on a server of their own and print the figures; whether all held."""
    with ServedVllm(folder) as pair:
        found = asyncio.run(restarts(pair, count, seconds, seed))
    print(figures(found), flush=True)
    return found.good and len(found.served) >= count
