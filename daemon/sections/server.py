"""The part of the configuration file that says who may start and stop the engine, and how."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from daemon.sections.base import Seconds, Section

Hand = Literal["none", "process", "systemd", "docker", "kubernetes", "hook"]
UnitName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:_.@\\-]{1,240}\.service$")]
Argv = list[Annotated[str, StringConstraints(min_length=1)]]


class SystemdSection(Section):
    """A service of systemd."""

    unit: UnitName | None = Field(default=None, description="the engine's unit, such as vllm.service")


class HookSection(Section):
    """The operator's own programs, each an argument list that no shell reads."""

    look: Argv = Field(default=[], description="says what runs")
    start: Argv = Field(default=[], description="begins a start")
    stop: Argv = Field(default=[], description="ends the engine")
    keep: Argv = Field(
        default=[], description="makes a command that of the next start; none: nothing is kept"
    )
    log: Argv = Field(default=[], description="prints what the engine wrote; none: no log is followed")
    timeout_seconds: Seconds = Field(
        default=30, description="longest wait for one of them; for stop the grace comes on top"
    )


class ServerSection(Section):
    """The hand that starts and stops the engine; what is not named here is never touched."""

    hand: Hand = Field(
        default="none",
        description="none (never restarted), process (`trimtab serve`), systemd, docker, kubernetes or hook",
    )
    grace_seconds: Annotated[float, Field(ge=1, le=3600)] = Field(
        default=60, description="between asking the engine to end and killing it"
    )
    systemd: SystemdSection = SystemdSection()
    hook: HookSection = HookSection()

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.hand == "systemd" and self.systemd.unit is None:
            raise ValueError("hand is systemd: name the engine's unit in systemd.unit")
        if self.hand == "hook":
            missing = [name for name in ("look", "start", "stop") if not getattr(self.hook, name)]
            if missing:
                raise ValueError(f"hand is hook: hook.{missing[0]} is missing, a list of words")
        return self
