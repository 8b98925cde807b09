"""One request inside the simulated engine, and what is left of it once it has finished."""

from __future__ import annotations

Finished = tuple[
    int, float, float | None, float, int, int | None, int, int, int, int, float, float, float, int, str
]
"""The fields of `change.engine.RequestRecord`, in its order."""


class Request:
    """One request inside the engine."""

    __slots__ = (
        "arrival",
        "block_step",
        "blocks",
        "cached",
        "done",
        "epoch_arrival",
        "epoch_first",
        "finish",
        "finish_step",
        "first_token",
        "generated",
        "last_token",
        "number",
        "output",
        "preemptions",
        "priority",
        "prompt",
        "scheduled",
        "start_step",
        "todo",
    )

    def __init__(
        self,
        number: int,
        arrival: float,
        prompt: int,
        output: int,
        cached: int,
        epoch: int,
        priority: int = 0,
    ) -> None:
        self.number = number
        self.arrival = arrival
        self.prompt = prompt
        self.output = output
        self.cached = cached
        self.priority = priority
        """Lower is served sooner; equal for all where requests are served as they come."""
        self.epoch_arrival = epoch
        self.epoch_first: int | None = None
        self.todo = prompt - cached
        """Prompt tokens still to prefill."""
        self.done = cached
        """Tokens whose KV is computed, as of the last prefill."""
        self.blocks = 0
        self.generated = 0
        """Output tokens emitted up to the end of the last prefill, or all of them at the finish."""
        self.scheduled = -1.0
        self.first_token: float | None = None
        self.last_token = 0.0
        self.finish: float | None = None
        self.start_step = 0
        """Step whose end completed the (last) prefill; 0 while it waits or prefills."""
        self.finish_step = 0
        self.block_step = 0
        self.preemptions = 0
