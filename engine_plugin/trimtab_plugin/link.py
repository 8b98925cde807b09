"""The API process's way to the plugin inside the engine processes: one utility call to every rank."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from trimtab_plugin.core import METHOD

Answer = dict[str, Any]

TIMEOUT_SECONDS = 4.0
"""Shorter than the daemon waits, so that it learns for certain whether a change was made."""


class LinkError(Exception):
    """The engine processes cannot be asked; the text says why and what to do."""


class RanksDiffer(Exception):
    """The data-parallel ranks disagree; carries their answers."""

    def __init__(self, answers: list[Answer]) -> None:
        super().__init__("the data-parallel ranks do not hold the same config")
        self.answers = answers


class EngineLink:
    """Calls the plugin in all engine processes that serve this API process."""

    def __init__(self, engine_client: Any, timeout: float = TIMEOUT_SECONDS) -> None:
        self._client = engine_client
        self._timeout = timeout

    @property
    def ranks(self) -> int:
        return int(self._client.vllm_config.parallel_config.data_parallel_size)

    @property
    def api_servers(self) -> int:
        return int(getattr(self._client.vllm_config.parallel_config, "_api_process_count", 1))

    def refusal(self) -> str | None:
        """Say why no change may be made from here, or None: it must reach all ranks and API processes."""
        if self.api_servers > 1:
            return (
                f"{self.api_servers} API server processes share no gate, epochs and timings: "
                "start it with --api-server-count 1"
            )
        reachable = len(self._engines())
        if reachable != self.ranks:
            return (
                f"only {reachable} of {self.ranks} data-parallel ranks answer to this API server, "
                "and all of them must hold equal values"
            )
        return None

    async def call(
        self, request: Mapping[str, Any], same: tuple[str, ...] = ("epoch", "values", "mark")
    ) -> Answer:
        """Ask every rank and return the first one's answer.

        Raises `RanksDiffer` unless all answers agree on the keys in `same` and on being errors; `LinkError`
        when the engine does not answer in time.
        """
        answers = await self._ask(request)
        first = answers[0]
        keys = ("code", *same)
        if any(answer.get(key) != first.get(key) for answer in answers[1:] for key in keys):
            raise RanksDiffer(answers)
        return first

    async def settle(self) -> Answer:
        """Bring ranks that differ back to their launch values under one new epoch, and return the state."""
        answers = await self._ask({"op": "state"})
        epoch = max(answer["epoch"] for answer in answers) + 1
        return await self.call({"op": "reset", "epoch": epoch})

    async def _ask(self, request: Mapping[str, Any]) -> list[Answer]:
        """Every rank's answer; raises `LinkError` when the engine does not answer in time."""
        message = {**request, "expires": time.time() + self._timeout}
        engines = self._engines()
        core = self._client.engine_core
        try:
            if len(engines) == 1:
                calls = [core.call_utility_async(METHOD, message)]
            else:
                calls = [core._call_utility_async(METHOD, message, engine=engine) for engine in engines]
            return list(await asyncio.wait_for(asyncio.gather(*calls), self._timeout))
        except asyncio.TimeoutError:
            raise LinkError(
                f"the engine did not answer within {self._timeout:g} s (a very long step, or a hang); "
                "a change still waiting there will not be made"
            ) from None
        except Exception as error:
            # vLLM raises what it likes here: EngineDeadError, or the text of an AttributeError in the other
            # process.
            if f"has no attribute '{METHOD}'" in str(error):
                raise LinkError(
                    "the engine process has not loaded the plugin: if VLLM_PLUGINS is set, add trimtab to it"
                ) from error
            raise LinkError(f"the engine cannot be asked: {type(error).__name__}: {error}") from error

    def _engines(self) -> list[Any]:
        return list(getattr(self._client.engine_core, "core_engines", [None]))
