"""The configuration of the derived figures."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from daemon.sections.base import Section


class DerivedSource(Section):
    """Figures derived from what the other sources gave."""

    enabled: bool = Field(default=True, description="derive them")
    interval_seconds: Annotated[float, Field(gt=0, le=120)] = Field(
        default=10.0, description="how often they are derived"
    )
    cards: list[list[Annotated[int, Field(ge=0)]]] = Field(
        default=[],
        description="NPU numbers of each engine's cards, the tuned engine's first; unset: all in use are one's",
    )

    @field_validator("cards")
    @classmethod
    def _of_one_engine(cls, engines: list[list[int]]) -> list[list[int]]:
        seen: set[int] = set()
        for npu in (npu for npus in engines for npu in npus):
            if npu in seen:
                raise ValueError(f"NPU {npu} stands twice: a card is of one engine")
            seen.add(npu)
        return engines

    @property
    def engines(self) -> tuple[frozenset[str], ...]:
        """The cards as labels name them."""
        return tuple(frozenset(map(str, npus)) for npus in self.cards)
