"""A stalled and a killed real vLLM server under `trimtab serve`: noticed by a shipped rule, mended by its playbook.

What is broken is only what this stand started: processes below its own `serve`, known by number and start time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx2

from bench.real_restart import say
from tests.real.engine import cores
from tests.real.served import ServedVllm
from tests.real.traffic import Traffic

Fault = Literal["stalled", "dead"]
FAULTS: tuple[Fault, ...] = ("stalled", "dead")
PLAYBOOKS = {"stalled": "engine_stall", "dead": "engine_dead"}
MOST_SECONDS = 30.0
"""For noticing and for everything in Trimtab's own hands; the engine's load is its own."""
PROOF_SECONDS: Mapping[Fault, float] = {"stalled": 20.0, "dead": 0.0}
"""So long nobody could know of it: an engine that made no step for less may be in a long one."""
RATE = 1.0
SETTLED_SECONDS = 60.0
"""Of traffic before anything is broken: rules look at what was."""
NOTICED_WITHIN_SECONDS = 300.0
MENDED_WITHIN_SECONDS = 1800.0


@dataclass(slots=True)
class Mended:
    """One fault: seconds until a run was queued for it, from there to service without the load, and what was wrong."""

    fault: Fault
    detected_seconds: float = 0.0
    own_seconds: float = 0.0
    load_seconds: float = 0.0
    back_seconds: float = 0.0
    state: str = ""
    phases: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def in_hands_seconds(self) -> float:
        """All of Trimtab's time: until it was noticed once it could be known, and the walk and the restart."""
        return max(self.detected_seconds - PROOF_SECONDS[self.fault], 0.0) + self.own_seconds

    @property
    def good(self) -> bool:
        """Whether it serves again, and was in Trimtab's hands no longer than allowed."""
        return not self.wrong and self.in_hands_seconds <= MOST_SECONDS


@contextmanager
def acting_pair(folder: Path) -> Iterator[ServedVllm]:
    """A server, its guardian and its daemon in mode act with the shipped rules and playbooks."""
    pair = ServedVllm(folder)
    pair.document |= {"mode": "act"}
    with pair:
        yield pair


async def mend(pair: ServedVllm, fault: Fault, seed: int) -> Mended:
    """Break it under traffic, and follow what its daemon does."""
    found = Mended(fault)
    pair.remember()
    known = {run["id"] for run in _runs(pair)}
    # Requests inside of the engine are lost with it: nobody is asked to count them.
    async with Traffic(pair.engine, RATE, seed=seed, patience=30.0, at_once=4):
        await asyncio.sleep(SETTLED_SECONDS)
        broken = time.time()
        await asyncio.to_thread(break_it, pair, fault)
        await asyncio.to_thread(_follow, pair, found, known, broken)
    if not pair.answers():
        found.wrong.append("it does not answer a request")
    if len(pair.engines()) != 1:
        found.wrong.append(f"{len(pair.engines())} engines run")
    return found


def break_it(pair: ServedVllm, fault: Fault) -> None:
    """Stop the process that steps, or kill the server."""
    (server,) = pair.engines()
    if fault == "dead":
        server.kill()
        return
    for core in cores(server):
        core.suspend()


def figures(found: list[Mended]) -> str:
    """A line for each."""
    return "\n".join(
        f"{one.fault}: noticed after {one.detected_seconds:.1f} s (of which {PROOF_SECONDS[one.fault]:g} s prove "
        f"nothing), then {one.own_seconds:.1f} s to service less the engine's load: {one.in_hands_seconds:.1f} of "
        f"{MOST_SECONDS:g} s in Trimtab's hands; the load {one.load_seconds:.1f} s, serves again after "
        f"{one.back_seconds:.1f} s; run {one.state} {one.phases} {'; '.join(one.wrong)}"
        for one in found
    )


def measured(folder: Path) -> bool:
    """Both faults, one after the other, on one server."""
    found: list[Mended] = []
    for seed, fault in enumerate(FAULTS):
        # A server each: a cool-down of the first fault's playbook must not hold up the second one's.
        with acting_pair(folder / fault) as pair:
            found.append(asyncio.run(mend(pair, fault, seed)))
            say(figures(found[-1:]))
    print(figures(found))
    return all(one.good for one in found)


def _follow(pair: ServedVllm, found: Mended, known: set[int], broken: float) -> None:
    run = _until_queued(pair, found, known, broken)
    if run is None:
        return
    found.detected_seconds = run["queued"] - broken
    deadline = time.monotonic() + MENDED_WITHIN_SECONDS
    while time.monotonic() < deadline:
        pair.remember()
        run = _ask(pair, f"runs/{run['id']}") or run
        if run.get("ended") is not None:
            break
        time.sleep(0.5)
    found.state = f"{run['id']} {run['state']}"
    if run["state"] != "succeeded":
        found.wrong.append(f"run {run['id']} is {run['state']}: {run.get('reason')}")
    restarts = [act for act in run.get("acts", ()) if act["action"]["kind"] == "restart" and act["outcome"]]
    if not restarts:
        found.wrong.append("nothing was restarted")
        return
    outcome = restarts[-1]["outcome"]["figures"]
    found.load_seconds, found.phases = outcome["load_seconds"], outcome["phases"]
    found.back_seconds = restarts[-1]["ended"] - broken
    # From the run's queueing to the engine's serving, less its load: the walk before the act is in our hands too.
    found.own_seconds = restarts[-1]["ended"] - run["queued"] - found.load_seconds


def _until_queued(pair: ServedVllm, found: Mended, known: set[int], broken: float) -> dict[str, Any] | None:
    deadline = time.monotonic() + NOTICED_WITHIN_SECONDS
    while time.monotonic() < deadline:
        for run in _runs(pair):
            if run["id"] not in known and run["playbook"] == PLAYBOOKS[found.fault]:
                return run
        time.sleep(0.2)
    others = [f"{run['playbook']} {run['state']}" for run in _runs(pair) if run["id"] not in known]
    found.wrong.append(
        f"no run of {PLAYBOOKS[found.fault]} within {time.time() - broken:.0f} s, but {others or 'none'}"
    )
    return None


def _runs(pair: ServedVllm) -> list[dict[str, Any]]:
    return _ask(pair, "runs") or []


def _ask(pair: ServedVllm, path: str) -> Any:
    """Ask the daemon, which may be away for a moment: None then."""
    for file in pair.run_dir.glob("daemon-*.json"):
        with contextlib.suppress(httpx2.HTTPError, ValueError, KeyError, OSError):
            url = json.loads(file.read_text())["url"].rstrip("/")
            answer = httpx2.get(f"{url}/api/v1/{path}", trust_env=False, timeout=10.0)
            if answer.status_code == 200:
                return answer.json()
    return None
