"""How patient a restart is, and what it demands before anything is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RestartSettings:
    """Seconds, bytes and counts of one engine's restarts."""

    kind: str = "vllm"
    """Whose start-up log it is: `vllm`, `sglang` or `mindie`."""
    drain_seconds: float = 120.0
    """Longest wait for requests inside to finish; those left are lost, and counted."""
    grace_seconds: float = 60.0
    """Between asking the engine to end and killing what is left of it."""
    release_seconds: float = 120.0
    """Longest wait for the old engine's device memory to be free."""
    step_seconds: Mapping[str, float] = field(default_factory=dict)
    """Time-outs of the load, by step; see `milestones.STEP_SECONDS`."""
    health_seconds: float = 120.0
    probe_seconds: float = 60.0
    """Longest wait for one token, and for one request of the warm-up."""
    warm_up_requests: int = 3
    watch_seconds: float = 60.0
    """How long a fresh start is watched for SLO violations before it counts as good."""
    lease_seconds: float = 60.0
    """Lease of the closed gate; renewed at a third of it."""
    retry_after_seconds: float = 5.0
    """What clients are told to wait while the gate is closed."""
    poll_seconds: float = 0.5
    least_disk_bytes: int = 1024**3
    memory_tolerance: float = 0.02
    """Share of a card that may stay in use and count as free (driver, context)."""
