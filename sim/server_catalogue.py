"""What the cold lane knows of the simulated engine's start-up settings: those of a scenario's cold side."""

from __future__ import annotations

from collections.abc import Sequence

from change.restart.order import Mismatch
from change.restart.parts import different
from change.server import LaunchCommand, Settings
from sim.cold import ColdSide
from sim.server_arguments import BadFlag, render, settings_of


class SimulatedCatalogue:
    """Flags and gates of a node whose scenario has a cold side."""

    def __init__(self, side: ColdSide) -> None:
        self._side = side

    def settings(self, command: LaunchCommand) -> Settings:
        """Read a command; nothing of one that the engine would refuse."""
        try:
            return settings_of(command)
        except BadFlag:
            return {}

    async def render(self, command: LaunchCommand, settings: Settings) -> LaunchCommand:
        """Spell settings out."""
        return render(command, settings)

    async def problems(self, settings: Settings, command: LaunchCommand) -> list[str]:
        """Say why these can never start here."""
        return self._side.problems(settings)

    def mismatches(self, requested: Settings, effective: Settings) -> list[Mismatch]:
        """Compare."""
        return different(requested, effective)

    def golden(self, settings: Settings) -> bool:
        """Whether they may change answers."""
        return "kv_cache_dtype" in settings

    async def effective(self, log: Sequence[str]) -> Settings:
        """Know nothing: the simulated probe says what is in force."""
        return {}
