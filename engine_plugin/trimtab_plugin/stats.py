"""vLLM's stat logger entry point: hands each engine output's statistics to the ring."""

from __future__ import annotations

import logging
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from trimtab_plugin.ring import RING
from trimtab_plugin.settings import disabled

logger = logging.getLogger("vllm.trimtab")


class RingLogger(StatLoggerBase):  # type: ignore[misc]  # vLLM is not installed where types are checked
    """One per engine of this API server process; all of them feed the same ring."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        self._record = None if disabled() else RING.record
        RING.attached = not disabled()

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        if iteration_stats is None or self._record is None:
            return
        try:
            self._record(iteration_stats)
        except Exception as error:
            # vLLM does not promise the shape of its statistics, and an error here would end the server's
            # output loop: stop recording, say so on the HTTP side.
            self._record = None
            RING.problem = f"this vLLM's statistics are not understood ({type(error).__name__}: {error})"
            logger.exception("trimtab: request timings are switched off")

    def log_engine_initialized(self) -> None:
        """Nothing to say: the HTTP side answers for the plugin."""
