"""Priority by size: gives a request without a priority one by the length of its prompt.

It works in the engine process, on the engine's own thread: `Scheduler.add_request` of this scheduler is wrapped while
it is on, and a request gets its number before it goes into a queue. A lower number is served sooner.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("vllm.trimtab")

PRIORITY = "priority_by_size"
OFF, LONG_FIRST, SHORT_FIRST = 0, 1, 2
NAMES = {OFF: "off", LONG_FIRST: "long_first", SHORT_FIRST: "short_first"}

LONG_TOKENS = 2048
MEDIUM_TOKENS = 512
"""A prompt of more tokens than this is long, or medium; the rest are short."""
SOONER, BETWEEN, LATER = 16, 32, 64
"""The guide's three queues."""

_QUEUES = ("waiting", "skipped_waiting", "kv_holding_waiting")
_RANKED = "trimtab_ranked"


def rank(mode: int, prompt_tokens: int) -> int:
    """Return the priority of a prompt of that many tokens."""
    if prompt_tokens > LONG_TOKENS:
        place = 0
    elif prompt_tokens > MEDIUM_TOKENS:
        place = 1
    else:
        place = 2
    ranks = (SOONER, BETWEEN, LATER)
    return ranks[place] if mode == LONG_FIRST else ranks[2 - place]


class SizePriority:
    """The switch of one scheduler whose policy is priority."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._mode = OFF
        self.fault: str | None = None
        """Why it switched itself off for good, or None."""

    @property
    def mode(self) -> int:
        """What is in effect: OFF as soon as something went wrong."""
        return self._mode

    def set(self, mode: int) -> None:
        """Serve by `mode` from now on, those that wait already included; OFF leaves nothing behind."""
        if self.fault is not None or mode == self._mode:
            return
        if self._mode == OFF:
            self._wrap()
        elif mode == OFF:
            self._unwrap()
        self._mode = mode
        try:
            self._rank_again()
        except Exception as error:
            self._give_up(error)

    def _wrap(self) -> None:
        add_request: Callable[..., Any] = self._scheduler.add_request
        prepare = self._prepare

        def add_request_with_trimtab(request: Any, *args: Any, **kwargs: Any) -> Any:
            prepare(request)
            return add_request(request, *args, **kwargs)

        self._scheduler.add_request = add_request_with_trimtab

    def _unwrap(self) -> None:
        self._scheduler.__dict__.pop("add_request", None)

    def _prepare(self, request: Any) -> None:
        """Give a request its number; whatever fails here, the request goes on as it came."""
        try:
            # 0 is what vLLM makes of a request without a priority; the next piece of a streamed prompt is none.
            if request.priority == 0 and request.request_id not in self._scheduler.requests:
                number = rank(self._mode, request.num_prompt_tokens)
                setattr(request, _RANKED, True)
                request.priority = number
        except Exception as error:
            self._give_up(error)

    def _rank_again(self) -> None:
        """Give what is inside and was ranked by us the numbers of the mode, and put the queues in order again."""
        mode = self._mode
        numbers = [
            (request, 0 if mode == OFF else rank(mode, request.num_prompt_tokens))
            for request in self._scheduler.requests.values()
            if getattr(request, _RANKED, False)
        ]
        heaps = [
            queue._heap
            for queue in (getattr(self._scheduler, name, None) for name in _QUEUES)
            if queue is not None
        ]
        for request, number in numbers:
            request.priority = number
        # In place, so that no request can be lost whatever happens between.
        for heap in heaps:
            heapq.heapify(heap)

    def _give_up(self, error: Exception) -> None:
        self.fault = f"it failed in this engine ({type(error).__name__}: {error})"
        logger.error("trimtab: priority by size is switched off", exc_info=error)
        self._mode = OFF
        self._unwrap()
        try:
            self._rank_again()
        except Exception as second:
            logger.error("trimtab: requests that wait keep the priority they were given", exc_info=second)
