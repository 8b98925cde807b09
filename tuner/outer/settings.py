"""What the operator allows an outer loop: restarts, lost capacity, hours, and knobs that need his word."""

from __future__ import annotations

from dataclasses import dataclass

from change.server import Setting

BY_NAME = frozenset(
    {
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "quantization",
        "kv_cache_dtype",
        "swap_space",
    }
)
"""Moved only if the operator names them: they change the shape of the engine, its answers, or do not exist any more."""
ANSWERING = frozenset({"quantization", "kv_cache_dtype"})
"""Change answers: only where the restart itself passes an accuracy gate."""
LEAST_RESTARTS = 3
"""Incumbent, candidate, incumbent, candidate: fewer restarts cannot decide anything."""


@dataclass(frozen=True, slots=True)
class OuterSettings:
    """Bounds of an outer loop. `lost_minutes` is capacity lost to restarts, `allow` names what needs the word.

    `knobs` are the cold knobs that may move (empty: every one known that needs no word); `values` are the operator's
    own values for a knob, in place of those known. Each hot campaign takes at most tune.minutes. `gated` says that an
    accuracy gate stands in every restart.
    """

    restarts: int = 0
    lost_minutes: float = 60.0
    stint_minutes: float = 15.0
    probation_minutes: float = 30.0
    min_effect: float = 0.10
    deviations: float = 3.0
    allow: tuple[str, ...] = ()
    knobs: tuple[str, ...] = ()
    values: tuple[tuple[str, tuple[Setting, ...]], ...] = ()
    gated: bool = False

    def __post_init__(self) -> None:
        if not (self.restarts == 0 or self.restarts >= LEAST_RESTARTS):
            raise ValueError(
                f"{self.restarts} restarts: expected 0 or at least {LEAST_RESTARTS}, as two alternations of"
                " incumbent and candidate take that many"
            )
        for name in ("lost_minutes", "stint_minutes", "probation_minutes", "min_effect"):
            if not getattr(self, name) > 0:
                raise ValueError(f"tune.cold.{name} {getattr(self, name)}: expected more than zero")

    def may_move(self, name: str) -> str | None:
        """Why a knob may not be moved, or None if it may."""
        if self.knobs and name not in self.knobs and name not in self.allow:
            return f"{name} is not among tune.cold.knobs"
        if name in BY_NAME and name not in self.allow:
            return f"{name} is moved only if tune.cold.allow names it"
        if name in ANSWERING and not self.gated:
            return f"{name} changes answers and no accuracy gate is configured"
        return None
