"""What the operator asks of a campaign: limits, objective, knobs, budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

LatencyName = Literal["ttft", "itl", "e2e"]
ObjectiveName = Literal["goodput", "throughput", "ttft", "itl", "e2e", "jitter", "cost"]
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Limit:
    """At most a share of 1 - `quantile` of requests (of token gaps for `itl`) may take longer than `seconds`."""

    metric: LatencyName
    quantile: float
    seconds: float

    def __post_init__(self) -> None:
        if self.quantile not in QUANTILES:
            raise ValueError(f"slo quantile {self.quantile}: expected one of {QUANTILES}")
        if not self.seconds > 0:
            raise ValueError(f"slo {self.metric} limit of {self.seconds} s: expected more than zero")

    @property
    def key(self) -> str:
        """Name of the measured quantity this limits, as in `ttft_p99_seconds`."""
        return f"{self.metric}_p{self.quantile * 100:.0f}_seconds"

    @property
    def allowance(self) -> float:
        """Share that may be slower."""
        return 1.0 - self.quantile


@dataclass(frozen=True, slots=True)
class Slo:
    """The operator's limits; none set means none judged."""

    limits: tuple[Limit, ...] = ()
    error_ratio: float | None = None

    def request_limits(self) -> dict[LatencyName, Limit]:
        """The limit that one request is held to, per latency: the one of the highest quantile."""
        found: dict[LatencyName, Limit] = {}
        for limit in self.limits:
            if limit.metric not in found or limit.quantile > found[limit.metric].quantile:
                found[limit.metric] = limit
        return found


@dataclass(frozen=True, slots=True)
class Objective:
    """What a campaign improves; `quantile` matters to the latencies only (default 0.9)."""

    name: ObjectiveName = "goodput"
    quantile: float = 0.9

    def __post_init__(self) -> None:
        if self.name not in get_args(ObjectiveName):
            raise ValueError(f"objective {self.name!r}: expected one of {', '.join(get_args(ObjectiveName))}")
        if self.quantile not in QUANTILES:
            raise ValueError(f"objective quantile {self.quantile}: expected one of {QUANTILES}")


@dataclass(frozen=True, slots=True)
class TuneSettings:
    """One campaign's bounds: knobs by name (empty means every hot knob found), effects as ratios, minutes."""

    knobs: tuple[str, ...] = ()
    objective: Objective = Objective()
    min_effect: float = 0.03
    max_regression: float = 0.10
    minutes: float = 240.0
    max_temperature_celsius: float = 85.0
    lease_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.min_effect < 1:
            raise ValueError(f"tune.min_effect {self.min_effect}: expected a ratio between 0 and 1")
        if self.max_regression < 0:
            raise ValueError(f"tune.max_regression {self.max_regression}: expected zero or more")
        if not self.minutes > 0:
            raise ValueError(f"tune.minutes {self.minutes}: expected more than zero")
        if not 2 <= self.lease_seconds <= 120:
            raise ValueError(f"lease of {self.lease_seconds} s: expected 2 to 120")
