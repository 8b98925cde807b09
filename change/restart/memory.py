"""The memory plan of a start: what must fit on each card, and what the field's guides say of the shares.

The guides plan 80% for weights, 15% for the KV cache and 5% for what comes and goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from change.restart.ports import Card

TEMPORARY_SHARE = 0.05
WEIGHTS_SHARE = 0.80
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What one card must hold, in bytes; None is unknown.

    `kv_bytes` is the least the engine can serve with: one request of the longest length. `share` of the card is what
    the engine claims at its start, and must find free.
    """

    share: float
    weights_bytes: int | None = None
    kv_bytes: int | None = None

    def within(self, known: MemoryPlan) -> bool:
        """Whether it asks for no more than one that is known to serve, in no smaller share."""
        return self.share >= known.share and self._held <= known._held

    @property
    def _held(self) -> int:
        return (self.weights_bytes or 0) + (self.kv_bytes or 0)


@dataclass(frozen=True, slots=True)
class Judged:
    """`problems` make a start impossible, `warnings` only unwise."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def judge(plan: MemoryPlan, cards: Sequence[Card]) -> Judged:
    """Judge a plan by the smallest of the cards; nothing is judged where no card is known."""
    if not cards:
        return Judged()
    total = min(card.total_bytes for card in cards)
    problems: list[str] = []
    warnings: list[str] = []
    weights, kv = plan.weights_bytes, plan.kv_bytes
    if weights is not None:
        need = weights + (kv or 0) + TEMPORARY_SHARE * total
        claimed = plan.share * total
        parts = f"weights {_gib(weights)}, KV cache of one longest request {_gib(kv or 0)}"
        if need > total:
            problems.append(
                f"the memory plan cannot fit on a card of {_gib(total)}: {parts}, 5% for what comes and goes; use more "
                "cards, a smaller precision or a shorter max_model_len"
            )
        elif weights + (kv or 0) > claimed:
            problems.append(
                f"the memory plan cannot fit into the share {plan.share:g} of a card ({_gib(claimed)}): {parts}; raise "
                "gpu_memory_utilization, or use more cards"
            )
        elif weights > WEIGHTS_SHARE * total:
            warnings.append(
                f"weights take {weights / total:.0%} of a card; over {WEIGHTS_SHARE:.0%} the KV cache has little room"
            )
    return Judged(tuple(problems), tuple(warnings))


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"
