"""Faults of a restart on a real vLLM server under traffic: those that stop nothing, and those that cost one start."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.real_restart import patient, say
from tests.real.faults import trimtab_faults as faults
from tests.real.served import ServedVllm

CHIP_BYTES_TEXT = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0.3                 Version: 24.1.rc3.7                                           |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B4-1             | OK            | 131.2       48                0    / 0             |
| 0                         | 0000:C1:00.0  | 63          0    / 0          18   / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
"""
SLO = {"ttft_p50_seconds": 0.5}
WATCH_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: how it is made (`real`: by vLLM or the host themselves), the order, the phase it is noticed in.

    `phase` is `preflight` for what is to stop nothing; `says` stands in the reason that is told.
    """

    name: str
    how: Literal["real", "injected", "stand-in"]
    settings: Mapping[str, Any]
    phase: str
    says: str
    around: Callable[[ServedVllm], AbstractContextManager[None]] = lambda pair: nullcontext()


@dataclass(slots=True)
class Met:
    """What came of a fault; `wrong` is empty if all held."""

    fault: Fault
    reason: str
    down_seconds: float | None
    lost: int = 0
    wrong: list[str] = field(default_factory=list)


@contextmanager
def configured(pair: ServedVllm, more: Mapping[str, Any]) -> Iterator[None]:
    """A daemon with more in its file, and afterwards the usual one."""
    pair.configure(more)
    pair.restart_daemon()
    pair.wait_until_up()
    try:
        yield
    finally:
        pair.configure({})
        pair.restart_daemon()
        pair.wait_until_up()


def with_a_card(pair: ServedVllm) -> AbstractContextManager[None]:
    """A stand-in for npu-smi that shows one card of 64 GiB: a CPU has none to plan for."""
    program = pair.folder / "npu-smi"
    program.write_text(
        "#!/usr/bin/env python3\nimport sys\n"
        "if sys.argv[1:] != ['info']:\n    sys.exit('This device does not support it')\n"
        f"print({CHIP_BYTES_TEXT!r}, end='')\n"
    )
    program.chmod(0o755)
    return configured(pair, {"collect": {"npu_smi": {"command": str(program), "watch": False}}})


def with_an_slo(pair: ServedVllm) -> AbstractContextManager[None]:
    """A limit on the median TTFT, watched after a start."""
    restart = {**pair.document["engine"]["restart"], "watch_seconds": WATCH_SECONDS, "warm_up_requests": 1}
    return configured(pair, {"slo": SLO, "engine": {**pair.document["engine"], "restart": restart}})


BAD_FLAG = Fault("bad flag", "real", {"swap_space": 4}, "preflight", "swap_space")
NO_MEMORY = Fault(
    "memory plan impossible",
    "stand-in",
    {"gpu_memory_utilization": 0.06},
    "preflight",
    "the memory plan cannot fit",
    with_a_card,
)
CRASH = Fault("crash at load", "real", {"block_size": 16}, "load", "No common block size for 16")
HANG = Fault(
    "hang at load", "injected", {"max_num_seqs": faults.HANGS}, "load", "'weights loaded' was not reached"
)
OUT_OF_MEMORY = Fault(
    "out of memory at load", "real", {"cpu_kvcache_space": 512}, "load", "less than requested memory"
)
NPU_OUT_OF_MEMORY = Fault(
    "out of memory at load, in torch_npu's words",
    "injected",
    {"max_num_seqs": faults.OUT_OF_MEMORY},
    "load",
    "NPU out of memory",
)
MUTE = Fault("fails its probe", "injected", {"max_num_seqs": faults.MUTE}, "probe", "HTTP 500")
SLOW = Fault(
    "SLO burn after start", "injected", {"max_num_seqs": faults.SLOW}, "open", "ttft_p50", with_an_slo
)
ALL = (BAD_FLAG, NO_MEMORY, CRASH, HANG, OUT_OF_MEMORY, NPU_OUT_OF_MEMORY, MUTE, SLOW)


async def meet(pair: ServedVllm, fault: Fault, seed: int) -> Met:
    """Order a restart with the fault in its way, under traffic of its own."""
    with fault.around(pair):
        before, engine = pair.block_size(), pair.engines()
        async with patient(pair, seed) as traffic:
            await asyncio.sleep(5.0)
            code, told = await asyncio.to_thread(lambda: pair.apply(**fault.settings))
            met = Met(fault, str(told), None)
            if fault.phase == "preflight":
                if code == 0 or fault.says not in str(told):
                    met.wrong.append(f"not refused for it: exit {code}, {told}")
                if pair.engines() != engine:
                    met.wrong.append("it is not the engine of before")
            else:
                _judge(pair, fault, code, told, met)
            if pair.block_size() != before:
                met.wrong.append(f"the block size is {pair.block_size()}, not {before} as before")
            if pair.gate() != "open":
                met.wrong.append(f"the gate is {pair.gate()}")
            if len(pair.engines()) != 1:
                met.wrong.append(f"{len(pair.engines())} engines run")
        met.lost = len(traffic.report.failures)
        if met.lost:
            met.wrong.append(
                f"{met.lost} of {traffic.report.sent} requests lost: {traffic.report.failures[:2]}"
            )
    say(f"{fault.name} ({fault.how}): {'; '.join(met.wrong) or 'as it is to be'}; {met.reason[:300]}")
    return met


def _judge(pair: ServedVllm, fault: Fault, code: int, told: Any, met: Met) -> None:
    if not isinstance(told, dict):
        met.wrong.append(f"exit {code}: {told}")
        return
    met.reason, met.down_seconds = told["reason"], told["down_seconds"]
    if (told["outcome"], told["phase"]) != ("undone", fault.phase):
        met.wrong.append(f"{told['outcome']} in {told['phase']}, not undone in {fault.phase}")
    if fault.says not in met.reason:
        met.wrong.append(f"{fault.says!r} is not in what is told")
    starts = (pair.newest()["effective"] or {}).get("starts")
    if starts != 2:
        met.wrong.append(f"{starts} starts, not one that failed and one back")


async def meet_all(pair: ServedVllm, seed: int) -> list[Met]:
    """One after the other, on one pair."""
    met = [await meet(pair, fault, seed + number) for number, fault in enumerate(ALL)]
    return [*met, await asyncio.to_thread(port_taken, pair)]


PORT_TAKEN = Fault("port taken by another", "real", {"block_size": 64}, "preflight", "port is taken")


def port_taken(pair: ServedVllm) -> Met:
    """While vLLM serves nobody can take its port, so the engine is brought down first: its way back fails too.

    Without traffic: whoever takes the port would have the clients' requests.
    """
    model, away = pair.folder / "model" / "config.json", pair.folder / "config.json.away"
    with vanishes_at_the_first_end(pair, model, away):
        code, told = pair.apply(block_size=16)
    met = Met(PORT_TAKEN, str(told), None)
    if code != 1 or "did not come back either" not in str(told) or pair.engines():
        met.wrong.append(f"not down after a failed start and a failed way back: {told}")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", pair.engine.port))
        other.listen(1)
        code, told = pair.apply(**PORT_TAKEN.settings)
        met.reason = str(told)
        if code == 0 or PORT_TAKEN.says not in met.reason or pair.engines():
            met.wrong.append(f"not refused for it: exit {code}, {told}")
    code, told = pair.apply(**PORT_TAKEN.settings)
    if code != 0 or not pair.answers() or pair.block_size() != 64:
        met.wrong.append(f"it does not serve once the port is free: {told}")
    say(f"{PORT_TAKEN.name}: {'; '.join(met.wrong) or 'as it is to be'}; {met.reason[:300]}")
    return met


@contextmanager
def vanishes_at_the_first_end(pair: ServedVllm, path: Path, away: Path) -> Iterator[None]:
    """A file of the model that is gone once the failed start has run, so that the way back finds none."""
    first = {engine.pid for engine in pair.engines()}
    over = threading.Event()

    def watch() -> None:
        tried: set[int] = set()
        while not over.wait(0.2):
            tried |= {engine.pid for engine in pair.engines()} - first
            log = pair.run_dir / "engine.log"
            if tried and "No common block size" in log.read_text(errors="replace"):
                path.rename(away)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        if away.exists():
            away.rename(path)


def figures(found: list[Met]) -> str:
    """A line for each fault."""
    lines = []
    for met in found:
        down = "nothing stopped" if met.down_seconds is None else f"users waited {met.down_seconds:.1f} s"
        lines.append(
            f"{met.fault.name} ({met.fault.how}), noticed in {met.fault.phase}: {down},"
            f" {met.lost} requests lost{''.join(f'; WRONG: {text}' for text in met.wrong)}\n"
            f"    {met.reason[:300]}"
        )
    return "\n".join(lines)


def measured(folder: Path, seed: int = 40) -> bool:
    """Meet each fault on a server of its own and print what came of it; whether all held."""
    with ServedVllm(folder) as pair:
        found = asyncio.run(meet_all(pair, seed))
    print(figures(found), flush=True)
    return len(found) == len(ALL) + 1 and not any(met.wrong for met in found)
