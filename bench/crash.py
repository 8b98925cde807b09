"""kill -9 of the tuner in the middle of a trial on a real server: the engine goes back by its lease, the next start
finds nothing half done."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import yaml
from sqlalchemy import select

from bench.real_campaign import fair_rate
from change.engine import EngineState, Values
from change.knobs import differences
from daemon.engine.hot import HotEngine
from store import open_store
from store.models import Campaign, JournalEntry, Trial
from tests.real.engine import PATIENCE_SECONDS, RealEngine
from tests.real.traffic import Traffic

LEASE_SECONDS = 6.0
GATE_SECONDS = 4.0
TRIAL_WAIT_SECONDS = 240.0
START_WAIT_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Crash:
    """One kill: seconds until the incumbent and the open gate were back, what the next start left open."""

    trial_values: dict[str, float]
    back_seconds: float
    gate_seconds: float
    open_entries: int
    half_trials: int


def configuration(engine: RealEngine, folder: Path) -> Path:
    """A campaign with short leases; the effect is set so large that noise never ends it early."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trimtab.yaml"
    document = {
        "mode": "act",
        "engine": {
            "url": engine.url,
            "token_file": str(engine.token_file),
            "run_dir": str(folder / "run"),
            "timeout_seconds": PATIENCE_SECONDS,
        },
        "tune": {
            "objective": {"name": "itl", "quantile": 0.5},
            "min_effect": 0.9,
            "max_regression": 1.0,
            "minutes": 30,
            "lease_seconds": LEASE_SECONDS,
        },
        "collect": {"npu_smi": {"enabled": False}},
        "web": {"port": 0},
        "store": {"url": f"sqlite:///{folder / 'trimtab.db'}"},
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def crashes(engine: RealEngine, folder: Path, count: int, seed: int) -> tuple[list[Crash], list[str]]:
    """Kill `count` campaigns, each at a random moment of a trial; returns what followed and the clients' failures."""
    path = configuration(engine, folder)
    moments = random.Random(seed)
    traffic = Traffic(engine, await fair_rate(engine), seed=seed)
    load = asyncio.create_task(traffic.run(count * (TRIAL_WAIT_SECONDS + START_WAIT_SECONDS)))
    found: list[Crash] = []
    try:
        async with engine.hot() as control:
            incumbent = (await control.state()).values
            for _ in range(count):
                found.append(await _crash(control, incumbent, path, folder, moments))
    finally:
        traffic.end()
        sent = await load
    return found, sent.failures


async def _crash(
    control: HotEngine, incumbent: Values, path: Path, folder: Path, moments: random.Random
) -> Crash:
    child = await _start("tune", "-c", str(path), "--json")
    try:
        state = await _until_trial(control, child)
        await asyncio.sleep(moments.uniform(0.0, 4.0))
        state = await _until_trial(control, child)
        await control.gate("closed", lease_seconds=GATE_SECONDS, retry_after=1.0)
        killed = time.monotonic()
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        await child.wait()
    tried = {k: v for k, v in state.values.items() if incumbent.get(k) != v}
    gate = back = None
    while gate is None or back is None:
        # A state counts for the moment it was asked for: how long a busy machine takes to answer is not the lease's.
        passed = time.monotonic() - killed
        state = await control.state()
        gate = passed if gate is None and state.gate == "open" else gate
        back = passed if back is None and not differences(incumbent, state.values) else back
        if passed > 3 * LEASE_SECONDS:
            raise RuntimeError(
                f"after {passed:.0f} s the engine holds {dict(state.values)}, gate {state.gate}"
            )
        await asyncio.sleep(0.05)
    entries, trials = await _next_start(path, folder)
    return Crash(tried, back, gate, entries, trials)


async def _until_trial(control: HotEngine, child: asyncio.subprocess.Process) -> EngineState:
    """Wait until a trial serves under its lease."""
    begun = time.monotonic()
    while time.monotonic() - begun < TRIAL_WAIT_SECONDS:
        state = await control.state()
        if state.lease_remaining_seconds is not None:
            return state
        if child.returncode is not None:
            raise RuntimeError(f"the campaign ended by itself with {child.returncode}")
        await asyncio.sleep(0.1)
    raise RuntimeError("no trial began")


async def _next_start(path: Path, folder: Path) -> tuple[int, int]:
    """Start the daemon and stop it once it has settled; returns open journal entries and half trials."""
    child = await _start("run", "-c", str(path))
    store = open_store(f"sqlite:///{folder / 'trimtab.db'}")
    begun = time.monotonic()
    try:
        while True:
            with store.reading() as session:
                entries = len(
                    session.scalars(select(JournalEntry).where(JournalEntry.state != "closed")).all()
                )
                campaigns = len(session.scalars(select(Campaign).where(Campaign.ended.is_(None))).all())
                trials = len(session.scalars(select(Trial).where(Trial.ended.is_(None))).all())
            if not entries + campaigns + trials or time.monotonic() - begun > START_WAIT_SECONDS:
                return entries, campaigns + trials
            await asyncio.sleep(0.2)
    finally:
        store.close()
        child.send_signal(signal.SIGTERM)
        await child.wait()


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    program = Path(sys.executable).with_name("trimtab")
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(program, *arguments, stdin=quiet, stdout=quiet, stderr=quiet)


def figures(found: list[Crash], failures: list[str]) -> str:
    """The figures on a few lines."""
    return "\n".join(
        [
            f"{len(found)} kills in the middle of a trial (lease {LEASE_SECONDS:g} s, gate {GATE_SECONDS:g} s)",
            f"incumbent back after {max(c.back_seconds for c in found):.1f} s at most,"
            f" gate open after {max(c.gate_seconds for c in found):.1f} s at most",
            f"open journal entries after the next start {sum(c.open_entries for c in found)},"
            f" half trials {sum(c.half_trials for c in found)}",
            f"trials that were cut short: {json.dumps([c.trial_values for c in found])}",
            f"failures of clients other than the closed gate's 503: "
            f"{[f for f in failures if not f.startswith('SentAway: HTTP 503')][:5]}",
        ]
    )
