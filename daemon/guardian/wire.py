"""What the daemon and the guardian say to each other: one JSON line each way, over a socket in the run folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from change.server import LaunchCommand, ProcessMark, ServerState

REQUEST_BYTES = 256 * 1024
"""Longest request: a command line with all its JSON."""
ANSWER_BYTES = 4 * 1024 * 1024
"""Longest answer: a part of a log whose every byte became an escape."""


def socket_path(run_dir: Path) -> Path:
    """Where the guardian of the engine in `run_dir` listens."""
    return run_dir / "serve.sock"


class Strict(BaseModel):
    """A message: unknown keys and other types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Command(Strict):
    """A `LaunchCommand` as JSON."""

    argv: list[Annotated[str, Field(max_length=128 * 1024)]] = Field(min_length=1, max_length=4096)
    environ: dict[str, str] = {}

    def launch(self) -> LaunchCommand:
        """The command it stands for."""
        return LaunchCommand(tuple(self.argv), dict(self.environ))

    @classmethod
    def of(cls, command: LaunchCommand) -> Command:
        """The JSON of a command; raises `ValidationError` for one that no process can have."""
        return cls(argv=list(command.argv), environ=dict(command.environ))


class Look(Strict):
    """Ask what runs."""

    order: Literal["look"] = "look"


class AskCommand(Strict):
    """Ask how the present run was started."""

    order: Literal["command"] = "command"


class Attend(Strict):
    """Say that an unfinished change is looked after, while nothing can be ordered yet."""

    order: Literal["attend"] = "attend"


class Stay(Strict):
    """Say that an engine which ends by itself will be started again by this daemon: good for so many seconds."""

    order: Literal["stay"] = "stay"
    seconds: float = Field(ge=0, le=300)


class Stop(Strict):
    """Have the engine end; asked again until the answer says that it is gone."""

    order: Literal["stop"] = "stop"
    grace_seconds: float = Field(ge=0, le=24 * 3600)


class Start(Strict):
    """Begin a start."""

    order: Literal["start"] = "start"
    command: Command


class Log(Strict):
    """Read what the present run wrote."""

    order: Literal["log"] = "log"
    position: str | None = Field(default=None, max_length=200)


class Keep(Strict):
    """Make a command the one that starts next."""

    order: Literal["keep"] = "keep"
    command: Command


Request = Look | AskCommand | Attend | Stay | Stop | Start | Log | Keep
_REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="order")])


class Mark(Strict):
    """A `ProcessMark` as JSON."""

    pid: int
    started: float
    boot: str = Field(default="", max_length=100)


class State(Strict):
    """A `ServerState` as JSON."""

    running: bool
    identity: str | None = Field(default=None, max_length=500)
    exit_code: int | None = None
    processes: list[Mark] = []

    def server_state(self) -> ServerState:
        """The state it stands for."""
        marks = tuple(ProcessMark(mark.pid, mark.started, mark.boot) for mark in self.processes)
        return ServerState(self.running, self.identity, self.exit_code, marks)

    @classmethod
    def of(cls, state: ServerState) -> State:
        """The JSON of a state."""
        marks = [Mark(pid=mark.pid, started=mark.started, boot=mark.boot) for mark in state.processes]
        return cls(running=state.running, identity=state.identity, exit_code=state.exit_code, processes=marks)


class Lines(Strict):
    """A `LogPart` as JSON."""

    lines: list[str]
    position: str = Field(max_length=200)


class Answer(Strict):
    """What came of a request: `error` says why it was refused; else what was asked for is there."""

    error: str | None = None
    gone: bool | None = None
    state: State | None = None
    command: Command | None = None
    log: Lines | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks: a process of this host; its `mark` tells it from a reused number, None if it had gone already."""

    pid: int
    mark: ProcessMark | None


def read_request(line: bytes) -> Request:
    """Parse a request; raises `ValueError` that says what is wrong with it."""
    try:
        return _REQUESTS.validate_json(line)
    except ValidationError as error:
        raise ValueError(reasons(error)) from error


def read_answer(line: bytes) -> Answer:
    """Parse an answer; raises `ValueError`."""
    try:
        return Answer.model_validate_json(line)
    except ValidationError as error:
        raise ValueError(reasons(error)) from error


def written(message: BaseModel) -> bytes:
    """The line of a message."""
    value: dict[str, Any] = message.model_dump(exclude_none=True)
    return json.dumps(value).encode() + b"\n"


def reasons(error: ValidationError) -> str:
    """What is wrong, in one line, without the values: they may be long, or nobody's business."""
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'it'}: {one['msg']}" for one in error.errors()[:3]
    )
