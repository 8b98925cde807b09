"""The knob catalogue as it applies to the configured engine: its version, its source, its chip and its cards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from change.arguments import read, render
from change.argv import ArgumentProblem
from change.catalogue.index import knobs_of
from change.effective import differences
from change.engine import EngineControl, EngineError, EngineState
from change.facts import Facts
from change.gates import problems
from change.installed.engine import InstalledEngine
from change.installed.source import SourceUnreadable
from change.launch import unknown_arguments
from change.restart.order import Mismatch
from change.server import LaunchCommand, ServerError, Settings
from collectors.engines.families import KindName
from collectors.history import History
from daemon.engine.effective import EffectiveReader
from daemon.engine.installed import installed_for

_CARD = "npu_hbm_total_bytes"


class EngineCatalogue:
    """`ColdCatalogue` of one engine; what is not known of it forbids nothing."""

    def __init__(
        self,
        kind: KindName,
        control: EngineControl,
        history: History,
        own_card: Callable[[str], bool | None],
        reader: EffectiveReader,
    ) -> None:
        self._kind: KindName = kind
        self._control = control
        self._history = history
        self._own_card = own_card
        self._reader = reader

    def settings(self, command: LaunchCommand) -> Settings:
        """Read the settings that a command spells out; raises `ServerError` for one that is a shell's."""
        try:
            return read(command, engine=self._kind)
        except ArgumentProblem as problem:
            raise ServerError(str(problem)) from problem

    async def render(self, command: LaunchCommand, settings: Settings) -> LaunchCommand:
        """Write settings into a command; raises `ServerError` where they have no place."""
        facts = await self._facts(command)
        try:
            return render(
                command, settings, engine=self._kind, version=facts.version, installed=facts.installed
            )
        except ArgumentProblem as problem:
            raise ServerError(str(problem)) from problem

    async def problems(self, settings: Settings, command: LaunchCommand) -> list[str]:
        """Say what is known against settings, and against any argument of the command they are in."""
        facts = await self._facts(command)
        against = problems(settings, facts, around=self.settings(command))
        try:
            return against + unknown_arguments(command, facts)
        except ArgumentProblem as problem:
            return [*against, str(problem)]

    def mismatches(self, requested: Settings, effective: Settings) -> list[Mismatch]:
        """Compare as the catalogue spells values."""
        found = differences(requested, effective, self._kind)
        return [Mismatch(one.knob, one.requested, one.effective) for one in found]

    def golden(self, settings: Settings) -> bool:
        """Whether one of the knobs stands behind the accuracy gate."""
        knobs = knobs_of(self._kind)
        return any(name in knobs and knobs[name].accuracy_gate for name in settings)

    async def effective(self, log: Sequence[str]) -> Settings:
        """Read the settings in force."""
        return await self._reader.read(self._kind, state=await self._state(), log=log)

    async def _state(self) -> EngineState | None:
        try:
            return await self._control.state()
        except EngineError:
            return None

    async def _facts(self, command: LaunchCommand) -> Facts:
        installed = await asyncio.to_thread(_installed, command, self._kind)
        # An engine that stands still lets every question wait for its whole time-out: only what must be asked is.
        state = await self._state() if installed is None or installed.version is None else None
        cards = [dict(labels) for labels in self._history.series(_CARD)]
        own = [card for card in cards if self._own_card(card.get("npu", "")) is not False]
        names = {card["name"] for card in own if "name" in card}
        return Facts(
            self._kind,
            # The source is what starts next; what runs may be of before an upgrade.
            (installed.version if installed is not None else None)
            or (None if state is None else state.engine_version),
            "ascend" if cards else None,
            names.pop() if len(names) == 1 else None,
            len(own) or None,
            installed,
        )


def _installed(command: LaunchCommand, kind: KindName) -> InstalledEngine | None:
    try:
        return installed_for(command, kind)
    except SourceUnreadable:
        return None
