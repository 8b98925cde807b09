"""Traffic for a real server: Poisson arrivals of the field's prompt mix, every failure counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

import httpx2

if TYPE_CHECKING:
    from tests.real.engine import RealEngine

MODEL_NAME = "tiny"
PROMPTS = ((128, 0.5), (512, 0.3), (1024, 0.2))
"""Prompt tokens and their share of the requests."""
OUTPUTS = (16, 64)
"""Output tokens, uniform, both ends included."""
VOCABULARY = 1024
SPECIAL_TOKENS = 3


@dataclass
class TrafficReport:
    """What became of the requests; times are seconds."""

    sent: int = 0
    succeeded: int = 0
    failures: list[str] = field(default_factory=list)
    output_tokens: int = 0
    ttft: list[float] = field(default_factory=list)
    e2e: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)


class SentAway(ValueError):
    """HTTP 503 with `Retry-After`: not let in, and told when to come again."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"HTTP 503, to be tried again in {seconds:g} s")
        self.seconds = seconds


class Traffic:
    """An open-loop load: Poisson arrivals at `rate` per second, the mix of `PROMPTS` and `OUTPUTS`, all by `seed`.

    Every request sent is either succeeded or a failure with its reason: another status than 200, a broken
    stream, fewer tokens than asked for, or no end within `patience` seconds. While `at_once` requests are under
    way, arrivals are left out.
    """

    def __init__(
        self,
        engine: RealEngine,
        rate: float,
        *,
        seed: int = 1,
        stream: bool = True,
        patience: float = 60.0,
        prompts: Sequence[tuple[int, float]] = PROMPTS,
        outputs: tuple[int, int] = OUTPUTS,
        headers: Mapping[str, str] | None = None,
        at_once: int | None = None,
    ) -> None:
        self._url = f"{engine.url}/v1/completions"
        self._rate = rate
        self._random = random.Random(seed)
        self._stream = stream
        self._patience = patience
        self._prompts = tuple(prompts)
        self._outputs = outputs
        self._headers = dict(headers or {})
        self._at_once = at_once
        self.report = TrafficReport()
        """What has become of the requests so far."""
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[TrafficReport] | None = None

    async def run(self, seconds: float) -> TrafficReport:
        """Send for `seconds`, wait for the answers, and report."""
        report = self.report
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        loop = asyncio.get_running_loop()
        pending: set[asyncio.Task[None]] = set()
        async with httpx2.AsyncClient(
            timeout=self._patience, limits=limits, trust_env=False, headers=self._headers
        ) as client:
            begin = loop.time()
            due = begin
            while True:
                due += self._random.expovariate(self._rate)
                if due > begin + seconds:
                    break
                body = self._body()
                with contextlib.suppress(TimeoutError):  # not asked to stop: time for the next request
                    await asyncio.wait_for(self._stopping.wait(), max(0.0, due - loop.time()))
                if self._stopping.is_set():  # without a wait, behind its own pace, it would not be told
                    break
                if self._at_once is not None and len(pending) >= self._at_once:
                    continue
                task = asyncio.create_task(self._one(client, body, report))
                pending.add(task)
                task.add_done_callback(pending.discard)
            if pending:
                await asyncio.wait(pending)
        return report

    def end(self) -> None:
        """Send nothing more; a run then waits for the answers and reports."""
        self._stopping.set()

    async def __aenter__(self) -> Self:
        """Run in the background, at most ten minutes, until the block ends."""
        self._task = asyncio.create_task(self.run(600.0))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._task is not None:
            await self._task

    def _body(self) -> dict[str, object]:
        lengths = [length for length, _ in self._prompts]
        length = self._random.choices(lengths, [share for _, share in self._prompts])[0]
        return {
            "model": MODEL_NAME,
            "prompt": [self._random.randrange(SPECIAL_TOKENS, VOCABULARY) for _ in range(length)],
            "max_tokens": self._random.randint(*self._outputs),
            "ignore_eos": True,
            "temperature": 0,
            "stream": self._stream,
            **({"stream_options": {"include_usage": True}} if self._stream else {}),
        }

    async def _one(self, client: httpx2.AsyncClient, body: dict[str, object], report: TrafficReport) -> None:
        report.sent += 1
        try:
            async with asyncio.timeout(self._patience):
                tokens = await (self._streamed if self._stream else self._whole)(client, body, report)
        except (httpx2.HTTPError, TimeoutError, ValueError, KeyError) as error:
            report.failures.append(f"{type(error).__name__}: {error}"[:300])
            return
        if tokens != body["max_tokens"]:
            report.failures.append(f"{tokens} tokens instead of {body['max_tokens']}")
            return
        report.succeeded += 1
        report.output_tokens += tokens

    async def _whole(self, client: httpx2.AsyncClient, body: dict[str, object], report: TrafficReport) -> int:
        begin = time.monotonic()
        response = await client.post(self._url, json=body)
        if response.status_code != 200:
            raise ValueError(f"HTTP {response.status_code}: {response.text[:200]}")
        report.e2e.append(time.monotonic() - begin)
        return int(response.json()["usage"]["completion_tokens"])

    async def _streamed(
        self, client: httpx2.AsyncClient, body: dict[str, object], report: TrafficReport
    ) -> int:
        begin = last = time.monotonic()
        first: float | None = None
        gaps: list[float] = []
        usage = 0
        async with client.stream("POST", self._url, json=body) as response:
            if response.status_code == 503 and "Retry-After" in response.headers:
                raise SentAway(float(response.headers["Retry-After"]))
            if response.status_code != 200:
                raise ValueError(f"HTTP {response.status_code}: {(await response.aread())[:200]!r}")
            async for data in server_sent(response):
                if data == b"[DONE]":
                    report.e2e.append(time.monotonic() - begin)
                    report.gaps += gaps
                    if first is not None:
                        report.ttft.append(first)
                    return usage
                event = json.loads(data)
                if "error" in event:
                    raise ValueError(f"the stream reports {event['error']}")
                if event.get("usage"):
                    usage = int(event["usage"]["completion_tokens"])
                if event["choices"]:
                    now = time.monotonic()
                    if first is None:
                        first = now - begin
                    else:
                        gaps.append(now - last)
                    last = now
        raise ValueError("the stream ended without [DONE]")


async def server_sent(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the data of each event; lines end at LF only, and the text of a line may hold U+0085 and its like."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                yield line[6:].rstrip(b"\r")


async def warm_up(engine: RealEngine, seconds: float = 10.0) -> None:
    """Put light traffic on a fresh server, whose first requests can take 15 s; raises if one fails."""
    report = await Traffic(engine, 4.0, seed=0, stream=False).run(seconds)
    if report.failures:
        raise RuntimeError(f"the warm-up failed: {report.failures[0]}\n{engine.log_tail()}")
