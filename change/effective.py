"""Cold settings in force against those that were asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from change.catalogue.index import knobs_of
from change.catalogue.knob import Engine, Knob
from change.server import Setting, Settings


@dataclass(frozen=True, slots=True)
class Difference:
    """A knob whose value in force is not the one asked for: its `requested` value was ignored or clamped."""

    knob: str
    requested: Setting
    effective: Setting

    @property
    def sentence(self) -> str:
        """What happened, in words."""
        return f"{self.knob} was asked to be {_said(self.requested)} and is {_said(self.effective)}"


def differences(requested: Settings, effective: Settings, engine: Engine) -> list[Difference]:
    """Say where the settings in force are not the requested ones.

    A knob that is absent from `effective` is unknown and no difference; one that was left to the engine
    (`kv_cache_dtype auto`) differs from nothing.
    """
    knobs = knobs_of(engine)
    return [
        Difference(name, value, effective[name])
        for name, value in requested.items()
        if name in effective and not _same(knobs.get(name), value, effective[name])
    ]


def unconfirmed(requested: Settings, effective: Settings) -> list[str]:
    """The names of requested settings of which nobody knows whether they are in force."""
    return [name for name in requested if name not in effective]


def _same(knob: Knob | None, requested: Setting, effective: Setting) -> bool:
    if knob is not None and knob.automatic is not None and requested == knob.automatic:
        return True
    if isinstance(requested, bool) or isinstance(effective, bool):
        return requested is effective
    if isinstance(requested, str) or isinstance(effective, str):
        return str(requested).split() == str(effective).split()
    return math.isclose(requested, effective, rel_tol=1e-6)


def _said(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else f"{value:g}" if abs(value) < 1e6 else str(value)
