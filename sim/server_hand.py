"""The simulated hand of the cold lane: starts and stops a node's engine in the node's own time, and breaks on order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from change.clock import Clock
from change.restart.command import GATE_VARIABLE
from change.server import LaunchCommand, LogPart, ProcessMark, ServerError, ServerState, Setting, Settings
from sim.node import Node
from sim.server_arguments import LAUNCH, BadFlag, settings_of

GATE_LEASE_SECONDS: Final = 120.0
STOP_SECONDS: Final = 2.0
HARD_STOP_SECONDS: Final = 0.2
_HOT_FLAGS = ("batch_max_tokens", "max_num_seqs")

FaultKind = Literal[
    "bad_flag", "init_failure", "out_of_memory", "dead_server", "hang", "probe", "golden", "ignored", "slo"
]
"""Ends with code 2; with 1; with 1 and its log names it; with 0 as its engine process died; says nothing more; answers
no request; answers otherwise than expected; clamps what was asked; serves its users badly."""

_PORTION = 0.5
"""Share of the load at which a start that breaks does so."""


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of the engine: what it was started with, when, and how it goes on."""

    number: int
    command: LaunchCommand
    begun: float
    serves_at: float
    fault: FaultKind | None
    ends_at: float = math.inf
    exit_code: int | None = None
    lines: tuple[tuple[float, str], ...] = ()
    processes: tuple[ProcessMark, ...] = ()


@dataclass
class SimulatedServer:
    """`EngineServer` over a node whose engine runs already, started by `command_line`.

    `faults` break the next starts, one each, None for a good one. With `zombies` the engine's worker outlives its
    stop and holds the cards until it is reaped. `stops` and `starts` count; `two_at_once` tells whether a second
    engine was ever begun beside one that ran.
    """

    node: Node
    clock: Clock
    load_seconds: float = 40.0
    faults: list[FaultKind | None] = field(default_factory=list)
    zombies: int = 0
    patient: bool = True
    command_line: LaunchCommand = LAUNCH
    starts: int = 0
    stops: int = 0
    two_at_once: bool = False
    stubborn: bool = False
    """The engine does not end before its grace is over."""
    attended: list[float] = field(default_factory=list)
    """When somebody said that he looks after an unfinished change."""
    keeps_original: bool = False
    in_the_way: str | None = None
    """What the hand knows to be in the way of a restart."""

    def __post_init__(self) -> None:
        self.kept = self.command_line
        self.effective: Settings = self._in_force(settings_of(self.command_line))
        self.alive: dict[ProcessMark, str] = {}
        self.node.cold = dict(self.effective)
        self._pid = 1000
        self._buried = -1
        self.run: _Run = _Run(
            0, self.command_line, self.node.now, self.node.now, None, processes=self._processes()
        )

    @property
    def way(self) -> str:
        """The hand's name."""
        return "simulated"

    async def command(self) -> LaunchCommand:
        """Return how the run of now, or the last one, was started."""
        return self.run.command

    async def look(self) -> ServerState:
        """Say what runs."""
        run = self.settle()
        over = self.clock.now() >= run.ends_at
        return ServerState(
            not over,
            f"run {run.number}",
            run.exit_code if over else None,
            () if over else tuple(mark for mark in run.processes if mark in self.alive),
        )

    async def objections(self) -> list[str]:
        """Say what is in the way."""
        return [] if self.in_the_way is None else [self.in_the_way]

    async def attend(self) -> None:
        """Note it."""
        self.attended.append(self.clock.now())

    async def stop(self, *, grace_seconds: float) -> None:
        """End what runs; it goes on to its end also if the caller dies meanwhile."""
        run, now = self.settle(), self.clock.now()
        if now >= run.ends_at:
            return
        self.stops += 1
        wait = grace_seconds + HARD_STOP_SECONDS if self.stubborn else STOP_SECONDS
        self.run = replace(run, ends_at=min(run.ends_at, now + wait), exit_code=0)
        await self.clock.sleep(self.run.ends_at - now)
        self.settle()

    async def start(self, command: LaunchCommand) -> ServerState:
        """Begin a start; its log and its end follow in the node's time."""
        now = self.clock.now()
        if now < self.settle().ends_at:
            self.two_at_once = True
            raise ServerError("an engine runs already: stop it first")
        self.starts += 1
        fault = self.faults.pop(0) if self.faults else self._too_large(command)
        self.run = self._begun(command, now, fault)
        if math.isfinite(self.run.serves_at):
            effective = self._in_force(settings_of(command))
            if fault == "ignored":
                effective["block_size"] = 128
            self.effective = effective
            self.node.begin(
                self.run.serves_at,
                {name: float(effective[name]) for name in _HOT_FLAGS if name in effective},
                effective,
                gate_closed_seconds=GATE_LEASE_SECONDS if GATE_VARIABLE in command.environ else None,
            )
        return await self.look()

    async def log(self, position: str | None) -> LogPart:
        """Read what the present run has written."""
        run = self.run
        number, _, place = (position or "").partition(":")
        seen = int(place) if number == str(run.number) else 0
        self.settle()
        written = [line for at, line in run.lines if at <= min(self.clock.now(), run.ends_at)]
        return LogPart(tuple(written[seen:]), f"{run.number}:{len(written)}")

    async def keep(self, command: LaunchCommand) -> None:
        """Make `command` what the next start by anybody uses."""
        self.kept = command

    # ------------------------------------------------------------------ for its companions

    @property
    def serving(self) -> bool:
        """Whether the engine answers."""
        return self.clock.now() < self.settle().ends_at and not self.node.control.down

    def settle(self) -> _Run:
        """Let what was due by now have happened; the run of now, or the last one."""
        run = self.run
        if self.clock.now() >= run.ends_at and run.number != self._buried:
            self._buried = run.number
            if not self.node.control.down:
                self.node.end(patient=self.patient)
            for mark in run.processes:
                if mark in self.alive and not (self.zombies and self.alive[mark] == "EngineCore"):
                    del self.alive[mark]
            self.zombies = max(0, self.zombies - 1)
        return self.run

    def reap(self, marks: Sequence[ProcessMark]) -> None:
        """These processes are killed."""
        for mark in marks:
            self.alive.pop(mark, None)

    # ------------------------------------------------------------------ inside

    def _in_force(self, asked: Settings) -> dict[str, Setting]:
        cold = self.node.scenario.cold
        return dict(asked) if cold is None else {**asked, **cold.effective(asked)}

    def _too_large(self, command: LaunchCommand) -> FaultKind | None:
        """Whether the story's cards do not hold what the command claims of them."""
        starts = self.node.drawn.starts
        try:
            share = float(settings_of(command).get("gpu_memory_utilization", 0.0))
        except BadFlag:
            return None
        return "out_of_memory" if starts is not None and share > starts.memory_share else None

    def _begun(self, command: LaunchCommand, now: float, fault: FaultKind | None) -> _Run:
        number = self.run.number + 1
        base = _Run(number, command, now, math.inf, fault, processes=self._processes())
        try:
            settings_of(command)
        except BadFlag as error:
            return replace(base, ends_at=now + 1.0, exit_code=2, lines=((now + 1.0, str(error)),))
        breaks = now + _PORTION * self.load_seconds
        lines = _log(now, self.load_seconds)
        early = tuple(row for row in lines if row[0] < breaks)
        match fault:
            case "bad_flag":
                text = "vllm: error: unrecognized arguments: --no-such-flag"
                return replace(base, ends_at=now + 1.0, exit_code=2, lines=((now + 1.0, text),))
            case "init_failure":
                text = "RuntimeError: Engine core initialization failed. See root cause above."
                return replace(base, ends_at=breaks, exit_code=1, lines=(*early, (breaks, text)))
            case "out_of_memory":
                text = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 29.50 GiB total capacity)"
                return replace(base, ends_at=breaks, exit_code=1, lines=(*early, (breaks, text)))
            case "dead_server":
                text = "ERROR EngineDeadError: EngineCore encountered an issue"
                return replace(base, ends_at=breaks, exit_code=0, lines=(*early, (breaks, text)))
            case "hang":
                return replace(base, lines=early)
            case _:
                return replace(base, serves_at=now + self.load_seconds, lines=lines)

    def _processes(self) -> tuple[ProcessMark, ...]:
        begun = self.clock.now()
        made = []
        for name in ("APIServer", "EngineCore"):
            self._pid += 1
            made.append(ProcessMark(self._pid, begun))
            self.alive[made[-1]] = name
        return tuple(made)


def _log(begun: float, seconds: float) -> tuple[tuple[float, str], ...]:
    """The start-up log of a good load, in the shape of a real one."""
    rows = (
        (0.02, "(APIServer pid=1001) INFO [api_utils.py:286] non-default args: {'port': 8000}"),
        (0.10, "(EngineCore pid=1002) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config"),
        (0.15, "(Worker pid=1002) INFO [model_runner.py:68] Starting to load model /models/q235..."),
        (0.70, "(Worker pid=1002) INFO [default_loader.py:268] Loading weights took 21.40 seconds"),
        (0.75, "(Worker pid=1002) INFO [worker.py:298] Available KV cache memory: 3.21 GiB"),
        (0.76, "(EngineCore pid=1002) INFO [kv_cache_utils.py:2327] NPU KV cache size: 65,536 tokens"),
        (0.95, "(Worker pid=1002) INFO [model_runner.py:1422] Graph capturing finished in 7 secs"),
        (0.96, "(EngineCore pid=1002) INFO [core.py:402] init engine (profile, create kv cache) took 9.6 s"),
        (0.98, "(APIServer pid=1001) INFO [entry.py:140] Starting vLLM server on http://127.0.0.1:8000"),
        (1.00, "INFO:     Application startup complete."),
    )
    return tuple((begun + share * seconds, line) for share, line in rows)
