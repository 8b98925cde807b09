"""One finding of the doctor: what was looked at, how it is, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`found` is what was seen; `mend` is what to do, empty where nothing is to be done."""

    area: str
    name: str
    verdict: Verdict
    found: str
    mend: str = ""

    def as_dict(self) -> dict[str, str]:
        """The finding as plain values."""
        return asdict(self)
