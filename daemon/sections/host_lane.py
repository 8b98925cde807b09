"""The configuration of what may be changed of the host."""

from __future__ import annotations

import difflib

from pydantic import Field, field_validator

from change.host_knobs import ENGINE_KNOBS, HOST_KNOBS
from daemon.sections.base import Section


class HostSection(Section):
    """What may be changed of the host, by hand and in a campaign."""

    knobs: list[str] = Field(
        default=list(ENGINE_KNOBS),
        description="knobs of the host lane that may be changed; those of the whole node only if they are named here",
    )

    @field_validator("knobs")
    @classmethod
    def _known_knobs(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in HOST_KNOBS:
                near = difflib.get_close_matches(name, HOST_KNOBS, n=1)
                mend = f"did you mean {near[0]}?" if near else f"they are {', '.join(HOST_KNOBS)}"
                raise ValueError(f"{name!r} is no knob of the host lane; {mend}")
        return names
