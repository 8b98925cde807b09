"""The part of the configuration file that is about precisions kept ready on replicas of their own."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from daemon.sections.base import Seconds, Section
from daemon.sections.server import Argv

Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class PrecisionSection(Section):
    """Traffic weights by which one precision or another serves, and the programs that know the balancer."""

    kept: dict[str, dict[str, Weight]] = Field(
        default={}, description="each precision kept ready: its name, and the weight of each replica under it"
    )
    look: Argv = Field(default=[], description="prints the weights in force")
    set: Argv = Field(default=[], description="puts the weights in force that it reads")
    timeout_seconds: Seconds = Field(default=30, description="longest wait for one of them")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.kept:
            return self
        for name in ("look", "set"):
            if not getattr(self, name):
                raise ValueError(f"{name} is missing, a list of words: the program that knows the balancer")
        replicas = {frozenset(weights) for weights in self.kept.values()}
        if len(replicas) > 1:
            raise ValueError(
                "kept: every precision gives the weight of every replica, 0 where it takes no traffic"
            )
        for name, weights in self.kept.items():
            if not any(weights.values()):
                raise ValueError(f"kept.{name}: nobody would be served: one weight at least is above 0")
        return self
