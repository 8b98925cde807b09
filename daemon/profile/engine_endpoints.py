"""The engine's own profiler: `POST /start_profile` and `/stop_profile`, as vLLM, vllm-ascend and SGLang have them.

They exist only where the engine was started for it (vLLM: `--profiler-config` with `torch_profiler_dir`, before 0.13
`VLLM_TORCH_PROFILER_DIR`; SGLang: `SGLANG_TORCH_PROFILER_DIR`). The engine writes into a folder of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import httpx2

from change.profiler import ProfilerAbsent, ProfilerError
from daemon.profile.folders import size_of

ANSWER_CHARACTERS = 300


class EngineProfiler:
    """Records through the engine at `url`.

    `client` speaks to it (key, TLS), with no time-out of its own: stopping takes as long as writing the results does.
    `results` is the engine's profile folder as it is seen from here.
    """

    way = "engine"

    def __init__(self, client: httpx2.AsyncClient, url: str, results: Path | None) -> None:
        self._client = client
        self._url = url.rstrip("/")
        self._results = results
        self._before: frozenset[Path] | None = None
        self._running = False

    async def start(self, folder: Path, seconds: float) -> None:
        """See `Profiler`; `folder` stays empty, since the engine chooses its own."""
        # vLLM makes the folder itself when it first records.
        if self._results is None or not (self._results.is_dir() or self._results.parent.is_dir()):
            where = "is not set" if self._results is None else f"({self._results}) is no folder here"
            raise ProfilerAbsent(
                f"capture.engine_folder {where}: name the folder that the engine writes its profiles to, as it is "
                "seen from here"
            )
        try:
            self._before = _entries(self._results)
        except OSError as error:
            raise ProfilerAbsent(
                f"capture.engine_folder {self._results} cannot be listed ({error.strerror}): let this user read it"
            ) from error
        # Set before it is asked: an answer that is lost may have started it all the same.
        self._running = True
        await self._post("start_profile")

    async def stop(self) -> None:
        """See `Profiler`."""
        if self._running:
            self._running = False
            await self._post("stop_profile")

    def place(self, folder: Path) -> Path:
        """See `Profiler`."""
        return self._results or folder

    def sizes(self) -> Mapping[Path, int]:
        """See `Profiler`: whatever came into the engine's folder since the start."""
        if self._results is None or self._before is None:
            return {}
        try:
            return {path: size_of(path) for path in _entries(self._results) - self._before}
        except OSError:
            return {}  # it cannot be listed now; what is not known has no size

    def discard(self) -> tuple[Path, ...]:
        """See `Profiler`: the folder is the engine's, and others may have written there meanwhile; all stays."""
        return tuple(sorted(self.sizes()))

    async def _post(self, what: str) -> None:
        try:
            response = await self._client.post(f"{self._url}/{what}")
        except (httpx2.HTTPError, OSError) as error:
            raise ProfilerError(
                f"{self._url} does not answer to {what} ({error or type(error).__name__})"
            ) from error
        if response.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            self._running = False
            raise ProfilerAbsent(
                f"{self._url} has no /{what}: start the engine with a profiler (vLLM: --profiler-config "
                '\'{"profiler": "torch", "torch_profiler_dir": "FOLDER"}\')'
            )
        if not response.is_success:
            said = " ".join(response.text[:ANSWER_CHARACTERS].split())
            raise ProfilerError(f"{self._url} answers {what} with HTTP {response.status_code}: {said}")


def _entries(folder: Path) -> frozenset[Path]:
    """What is in the folder; nothing while it is not made. Raises OSError."""
    try:
        return frozenset(folder.iterdir())
    except FileNotFoundError:
        return frozenset()
