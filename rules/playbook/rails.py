"""What keeps playbooks from doing harm: who may walk, who may act, and why not."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from rules.actions import ActionKind


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's limits. `allow` None is every action there is."""

    disabled: frozenset[str] = frozenset()
    allow: Set[ActionKind] | None = None
    acts_per_hour: int = 4
    approval_seconds: float = 1800.0
