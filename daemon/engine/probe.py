"""The probe of a real engine: health, one token, warm-up and golden prompts over HTTP, past the gate by its token."""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import httpx2

from change.restart.ports import ProbeFailed
from change.server import Settings
from daemon.engine.hot import TOKEN_HEADER

WARM_UP_WORDS = 128
WARM_UP_TOKENS = 16
_LARGEST_BODY = 16 * 1024 * 1024
_INSIDE = re.compile(
    r"^(?:vllm[:_]num_requests_(?:running|waiting)|sglang[:_]num_(?:running|queue)_reqs)"
    r"(?:\{[^}\n]*\})?\s+(\S+)",
    re.MULTILINE,
)
_SPACE = " \u0120\u2581"
"""How tokenizers spell a leading blank: itself, BPE's G with a dot, SentencePiece's low line."""


@dataclass(frozen=True, slots=True)
class Golden:
    """A prompt and the tokens that greedy decoding must give."""

    prompt: str
    tokens: tuple[str, ...]


class EngineRestartProbe:
    """`Probe` of the engine at `url`; `effective` reads the settings in force, given the first lines of the log."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        api_key: str | None,
        verify: ssl.SSLContext | bool = True,
        health_seconds: float = 5.0,
        answer_seconds: float = 60.0,
        metrics_url: str | None = None,
        golden: Sequence[Golden] = (),
        effective: Callable[[Sequence[str]], Awaitable[Settings]],
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._metrics_url = metrics_url or f"{self._url}/metrics"
        self._health_seconds = health_seconds
        self._answer_seconds = answer_seconds
        self._golden = tuple(golden)
        self._effective = effective
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        if token:
            headers[TOKEN_HEADER] = token
        self._client = httpx2.AsyncClient(
            verify=verify, trust_env=False, headers=headers, transport=transport, timeout=answer_seconds
        )

    @property
    def has_golden(self) -> bool:
        """Whether the configuration has golden prompts."""
        return bool(self._golden)

    async def healthy(self) -> bool:
        """Whether `/health` says so."""
        try:
            answer = await self._client.get(f"{self._url}/health", timeout=self._health_seconds)
        except (httpx2.HTTPError, OSError):
            return False
        return answer.status_code == HTTPStatus.OK

    async def inside(self) -> int | None:
        """Count by the metrics page."""
        try:
            answer = await self._client.get(
                self._metrics_url,
                timeout=self._health_seconds,
                headers={"Accept": "text/plain;version=0.0.4"},
            )
        except (httpx2.HTTPError, OSError):
            return None
        return requests_inside(answer.text) if answer.status_code == HTTPStatus.OK else None

    async def one_token(self) -> None:
        """Ask for one token."""
        await self._complete({"prompt": "1", "max_tokens": 1})

    async def warm_up(self) -> None:
        """Send a prompt of some length and let some tokens come."""
        await self._complete({"prompt": "1 " * WARM_UP_WORDS, "max_tokens": WARM_UP_TOKENS})

    async def golden(self) -> list[str]:
        """Ask each golden prompt."""
        if not self._golden:
            raise ProbeFailed("there is no golden prompt: write some into engine.restart.golden")
        wrong = []
        for number, one in enumerate(self._golden, 1):
            body = {"prompt": one.prompt, "max_tokens": len(one.tokens), "logprobs": 1, "seed": 0}
            found = tokens_of(await self._complete(body))
            place = first_difference(one.tokens, found)
            if place is not None:
                came = repr(found[place]) if place < len(found) else "nothing"
                wrong.append(
                    f"golden prompt {number}: token {place + 1} is {came}, not {one.tokens[place]!r}"
                )
        return wrong

    async def effective(self, log: Sequence[str]) -> Settings:
        """Read what is in force."""
        return await self._effective(log)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _complete(self, body: dict[str, Any]) -> Any:
        """The JSON of a good answer; raises `ProbeFailed` for any other."""
        model = await self._model()
        whole = {"temperature": 0.0, **body, **({"model": model} if model else {})}
        try:
            answer = await self._client.post(f"{self._url}/v1/completions", json=whole)
            if answer.status_code != HTTPStatus.OK:
                raise ProbeFailed(f"/v1/completions answers HTTP {answer.status_code}")
            if len(answer.content) > _LARGEST_BODY:
                raise ProbeFailed("/v1/completions answers with far more than was asked for")
            return answer.json()
        except (httpx2.HTTPError, OSError) as error:
            raise ProbeFailed(" ".join(str(error).split()) or type(error).__name__) from error
        except ValueError as error:
            raise ProbeFailed("/v1/completions does not answer in JSON") from error

    async def _model(self) -> str | None:
        """The first model's name; None where the engine does not say, which then takes its own."""
        try:
            answer = await self._client.get(f"{self._url}/v1/models", timeout=self._health_seconds)
            found = answer.json()["data"][0]["id"] if answer.status_code == HTTPStatus.OK else None
        except (httpx2.HTTPError, OSError, ValueError, KeyError, IndexError, TypeError):
            return None
        return found if isinstance(found, str) else None


def requests_inside(page: str) -> int | None:
    """Requests that run and wait, by a metrics page over all ranks; None where it has neither."""
    found = _INSIDE.findall(page)
    try:
        return int(sum(float(value) for value in found)) if found else None
    except (ValueError, OverflowError):
        return None


def tokens_of(answer: Any) -> list[str]:
    """The tokens of a completion as its logprobs spell them; raises `ProbeFailed` where there are none."""
    try:
        tokens = answer["choices"][0]["logprobs"]["tokens"]
        return [str(token) for token in tokens]
    except (KeyError, IndexError, TypeError) as error:
        raise ProbeFailed("the engine gives no logprobs, so that tokens cannot be compared") from error


def first_difference(expected: Sequence[str], found: Sequence[str]) -> int | None:
    """The place of the first token that is not as expected, however a leading blank is spelled; None if all are."""
    for place, token in enumerate(expected):
        if place >= len(found) or _blank(found[place]) != _blank(token):
            return place
    return None


def _blank(token: str) -> str:
    return " " + token[1:] if token and token[0] in _SPACE else token
