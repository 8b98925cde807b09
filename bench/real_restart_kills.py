"""kill -9 of the daemon at random moments of apply and rollback on a real vLLM server under traffic."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from sqlalchemy import select

from bench.real_restart import patient, say
from store import open_store
from store.models import JournalEntry
from tests.real.served import COMMAND_SECONDS, ServedVllm

SETTLE_SECONDS = 900.0
BEGIN_SECONDS = 60.0
"""Longest wait for the order to reach the daemon and get through its pre-flight."""


NO_PHASE = "no phase yet"


@dataclass(slots=True)
class Kill:
    """One kill: in which phase it came, how the order ended, and what was wrong then."""

    order: str
    after_seconds: float
    phase: str
    ended: str = ""
    settled_seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


@contextmanager
def decoy(pair: ServedVllm) -> Iterator[psutil.Popen]:
    """A process with the engine's own argument list that is none of ours: whoever goes by names would end it."""
    package = pair.folder / "decoy" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True, exist_ok=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "api_server.py").write_text("import time\ntime.sleep(36000)\n")
    process = psutil.Popen(
        pair.command(),
        env={**os.environ, "PYTHONPATH": str(pair.folder / "decoy")},
        stdin=subprocess.DEVNULL,
        cwd=pair.folder,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


def open_orders(pair: ServedVllm) -> list[int]:
    """Entries of the journal that nobody has closed yet."""
    store = open_store(f"sqlite:///{pair.folder / 'trimtab.db'}")
    try:
        with store.reading() as session:
            found = session.scalars(select(JournalEntry).where(JournalEntry.state != "closed")).all()
            return [entry.id for entry in found]
    finally:
        store.close()


async def kills(pair: ServedVllm, count: int, longest: float, seed: int) -> tuple[list[Kill], list[str]]:
    """Kill the daemon `count` times, within `longest` seconds of a restart; with the failures of the clients."""
    moments = random.Random(seed)
    found: list[Kill] = []
    with decoy(pair) as other:
        async with patient(pair, seed) as traffic:
            for number in range(count):
                # Each in its own part of the time, so that ten kills do not meet one phase only.
                moment = (number + moments.random()) / count * longest
                kill = await asyncio.to_thread(_kill, pair, number, moment)
                if not other.is_running() or other.status() == psutil.STATUS_ZOMBIE:
                    kill.wrong.append("the decoy is gone")
                found.append(kill)
                say(
                    f"{number + 1:2} {kill.order}, killed in {kill.phase} after {kill.after_seconds:.1f} s:"
                    f" {kill.ended} within {kill.settled_seconds:.1f} s {'; '.join(kill.wrong)}"
                    f" {traffic.report.failures[-2:]}"
                )
    return found, traffic.report.failures


def _kill(pair: ServedVllm, number: int, moment: float) -> Kill:
    back = number % 2 == 1
    if back and pair.newest().get("outcome") != "done":
        pair.apply(block_size=_another(pair.block_size()))  # there must be something to take back
    block, known = pair.block_size(), pair.newest().get("id")
    asked = _another(block)
    words = ("rollback",) if back else ("apply", str(pair.settings(block_size=asked)), "--restart")
    families = dict(pair.family())
    said = pair.output.stat().st_size
    order = subprocess.Popen(  # noqa: S603 - our own command
        pair.words(*words),
        env=pair.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    ordered = time.monotonic()
    while _phase(pair, said) == NO_PHASE and time.monotonic() - ordered < BEGIN_SECONDS:
        time.sleep(0.05)
    begun = time.monotonic()
    while time.monotonic() - begun < moment:
        time.sleep(0.1)
        families |= pair.family()
    kill = Kill(words[0], moment, "")
    daemon = pair.daemon()
    daemon.kill()
    daemon.wait(30)
    killed = time.monotonic()
    kill.phase = _phase(pair, said)
    # Without a daemon the command may have begun to carry it out itself.
    order.wait(COMMAND_SECONDS)
    most = 0
    closed = None
    while time.monotonic() - killed < SETTLE_SECONDS:
        pair.remember()
        families |= pair.family()
        most = max(most, len(pair.engines()))
        gate = pair.gate()
        closed = None if gate == "closed" else closed
        if pair.healthy() and gate == "open" and pair.watched() and not open_orders(pair):
            break
        time.sleep(0.3)
    kill.settled_seconds = time.monotonic() - killed
    _judge(pair, kill, block, known, families, most)
    return kill


def _another(block_size: int) -> int:
    return 64 if block_size != 64 else 128


def _judge(
    pair: ServedVllm, kill: Kill, block: int, known: int | None, families: dict[int, float], most: int
) -> None:
    left = open_orders(pair)
    if left:
        kill.wrong.append(f"journal entries {left} are open after {SETTLE_SECONDS:g} s")
    gate = pair.gate()
    if gate != "open":
        kill.wrong.append(f"the gate is {gate or 'not known'}")
    if most > 1:
        kill.wrong.append(f"{most} engines at once")
    if not pair.answers():
        kill.wrong.append("no request is answered")
    newest, now = pair.newest(), pair.block_size()
    if newest.get("id") == known:
        kill.ended = "nothing was begun"
        if now != block:
            kill.wrong.append(f"the block size is {now}, not {block}")
    else:
        kill.ended = str(newest["outcome"])
        asked = newest["change"]["settings"].get("block_size")
        wanted = asked if kill.ended == "done" else block
        if now != wanted:
            kill.wrong.append(f"{kill.ended}, and the block size is {now}, not {wanted}")
    here = pair.family()
    orphans = [pid for pid, started in families.items() if here.get(pid) != started and _lives(pid, started)]
    if orphans:
        kill.wrong.append(f"processes {orphans} of an ended engine live on")


def _lives(pid: int, started: float) -> bool:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE
    return False


def _phase(pair: ServedVllm, since: int) -> str:
    """What the daemon said last of its restart."""
    with pair.output.open("rb") as file:
        file.seek(since)
        lines = [line for line in file.read().decode(errors="replace").splitlines() if "restart: " in line]
    return lines[-1].partition("restart: ")[2].partition(":")[0] if lines else NO_PHASE


def figures(found: list[Kill], failures: list[str]) -> str:
    """The figures on a few lines."""
    ended = {name: sum(one.ended == name for one in found) for name in sorted({one.ended for one in found})}
    return "\n".join(
        [
            f"{len(found)} kills of the daemon in {', '.join(one.phase for one in found)}",
            f"ended: {ended}; serving with a closed journal after {max(one.settled_seconds for one in found):.1f} s"
            " at most",
            f"wrong: {[text for one in found for text in one.wrong]}",
            f"requests lost: {len(failures)} {failures[:5]}",
        ]
    )


def measured(folder: Path, count: int = 10, longest: float = 40.0, seed: int = 9) -> bool:
    """Kill on a server of its own and print the figures; whether all held."""
    with ServedVllm(folder) as pair:
        found, failures = asyncio.run(kills(pair, count, longest, seed))
    print(figures(found, failures), flush=True)
    return len(found) == count and not failures and not any(one.wrong for one in found)
