"""The way of an engine's start through its log: milestones by kind of engine, each with a time to be reached in.

Read from the start-up logs of vLLM 0.28 and 0.32, vllm-ascend and SGLang; a version that leaves a line out is no
failure, as a later milestone passes the earlier ones too.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

TAIL_LINES = 200
HEAD_LINES = 2000
_LONGEST_LINE = 2000


@dataclass(frozen=True, slots=True)
class Milestone:
    """A line of the start-up log: `name` is what was reached, `step` the time-out it falls under."""

    name: str
    step: str
    pattern: re.Pattern[str]


def _of(*rows: tuple[str, str, str]) -> tuple[Milestone, ...]:
    return tuple(Milestone(name, step, re.compile(pattern)) for name, step, pattern in rows)


STEP_SECONDS: Mapping[str, float] = {
    "begin": 300.0,
    "weights": 3600.0,
    "memory": 900.0,
    "graphs": 1800.0,
    "serve": 300.0,
}
"""How long each step may take before the start counts as hung; a large model takes tens of minutes to load."""

MILESTONES: Mapping[str, tuple[Milestone, ...]] = {
    "vllm": _of(
        ("arguments accepted", "begin", r"non-default args:"),
        ("engine core begun", "begin", r"Initializing a V[01] LLM engine"),
        ("weights begun", "begin", r"Starting to load model"),
        # "Initializing model took" stands before the weights are read.
        ("weights loaded", "weights", r"Loading (?:model )?weights took|Model loading took"),
        ("memory measured", "memory", r"Available KV cache memory"),
        ("KV cache made", "memory", r"KV cache size"),
        ("graphs captured", "graphs", r"Graph capturing finished"),
        ("engine ready", "graphs", r"init engine \("),
        ("server begun", "serve", r"Starting vLLM (?:API )?server"),
        ("serving", "serve", r"Application startup complete"),
    ),
    "sglang": _of(
        ("arguments accepted", "begin", r"server_args=ServerArgs\("),
        ("weights begun", "begin", r"Load weight begin"),
        ("weights loaded", "weights", r"Load weight end"),
        ("KV cache made", "memory", r"KV Cache is allocated|Memory pool end"),
        ("graphs captured", "graphs", r"Capture (?:cuda|npu) graph end"),
        ("server begun", "serve", r"Application startup complete"),
        ("serving", "serve", r"The server is fired up and ready to roll"),
    ),
    "mindie": _of(("serving", "weights", r"Daemon start success")),
}

_FATAL = re.compile(
    r"Engine core initialization failed|EngineDeadError|Engine process failed to start"
    r"|Engine core proc \S+ died unexpectedly|Scheduler hit an exception"
)
_RAISED = re.compile(r"(?:^|[\])] )(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception): \S")
"""The last line of a traceback, with or without the prefix of a log. The first one is the cause: what follows it are
the parents that tell of their children's end."""
_SAYS_WHY = re.compile(r"\b(?:[A-Za-z]*Error|error|Exception)\b")


@dataclass(frozen=True, slots=True)
class Sign:
    """A line that the log signatures know: the signature's id, and the line."""

    id: str
    line: str


class Load:
    """Follows one start: give it the lines as they come and the time, and it says how far it is."""

    def __init__(
        self,
        kind: str,
        step_seconds: Mapping[str, float],
        begun: float,
        classify: Callable[[str], str | None],
        redacted: Callable[[str], str] = str,
    ) -> None:
        """`kind` of engine (an unknown one is followed as vLLM), `begun` in the seconds that `feed` is told.

        `classify` names the log signature of a line, or None; `redacted` takes secrets out of what is kept and said.
        """
        self._milestones = MILESTONES.get(kind, MILESTONES["vllm"])
        self._seconds = {**STEP_SECONDS, **step_seconds}
        self._begun = self._reached_at = begun
        self._classify = classify
        self._redacted = redacted
        self._next = 0
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._head: list[str] = []
        self.fatal: str | None = None
        self.sign: Sign | None = None
        self._why: str | None = None
        self._cause: str | None = None

    @property
    def serving(self) -> bool:
        """Whether the last milestone was passed."""
        return self._next == len(self._milestones)

    @property
    def step(self) -> str:
        """What is waited for."""
        return "serving" if self.serving else self._milestones[self._next].name

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines."""
        return tuple(self._lines)

    @property
    def head(self) -> tuple[str, ...]:
        """The first lines as they are, in which the engine says with what it starts: to be read, never kept."""
        return tuple(self._head)

    def feed(self, lines: Sequence[str], now: float) -> list[str]:
        """Read lines; return what was reached with them, in words."""
        reached: list[str] = []
        if lines and not self._lines:
            self._reached_at = now  # a pod may be made long after it was asked for
        for raw in lines:
            if len(self._head) < HEAD_LINES:
                self._head.append(raw[:_LONGEST_LINE])
            # Before the cut: half a secret is one still.
            line = self._redacted(raw)[:_LONGEST_LINE]
            self._lines.append(line)
            for position in range(self._next, len(self._milestones)):
                if self._milestones[position].pattern.search(line):
                    self._next, self._reached_at = position + 1, now
                    reached.append(f"{self._milestones[position].name} after {now - self._begun:.0f} s")
                    break
            if self.fatal is None and _FATAL.search(line):
                self.fatal = line
            if _SAYS_WHY.search(line):
                self._why = line
            if self._cause is None and _RAISED.search(line):
                self._cause = line
            sign = self._classify(line)
            if sign is not None:
                self.sign = Sign(sign, line)
        return reached

    def overdue(self, now: float) -> str | None:
        """Say in words what was not reached in its time, or None.

        An engine whose log nobody reads has the sum of all times, and so have those that come up after the one whose
        log it is.
        """
        if self.serving or not self._lines:
            limit = sum(self._seconds[step] for step in STEP_SECONDS)
        else:
            limit = self._seconds[self._milestones[self._next].step]
        if now - self._reached_at <= limit:
            return None
        if self.serving:
            return f"its log says that it serves, and it was not all up within {limit:.0f} s"
        return f"{self.step!r} was not reached within {limit:.0f} s"

    def why(self) -> str:
        """What the log says of a failure: the known signature and the first exception, else the last line that speaks
        of an error."""
        cause = None if self._cause is None else self._cause.strip()[:300]
        if self.sign is not None:
            line = self.sign.line.strip()[:300]
            first = "" if cause is None or cause == line else f"; first of all: {cause}"
            return f"{self.sign.id}: {line}{first}"
        last = cause or self.fatal or self._why or (self._lines[-1] if self._lines else None)
        return "its log is empty" if last is None else f"its log says: {last.strip()[:300]}"
