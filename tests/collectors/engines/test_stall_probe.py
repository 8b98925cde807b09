"""The probe is sent only under suspicion, one at a time and seldom, and a refusal is not a stall."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from collectors.engines.stall_probe import LARGEST_ANSWER_BYTES, StallProbe, Suspicion
from collectors.history import History
from collectors.runner import Runner
from collectors.sample import CollectorError, Sample

NOW = 1_700_000_000.0
STUCK = Suspicion("m")


class Engine:
    """Answers the completions route as told, and keeps what it was asked."""

    def __init__(self, status: int = 200, body: bytes = b"{}", hang: bool = False) -> None:
        self.status, self.body, self.hang = status, body, hang
        self.asked: list[httpx2.Request] = []
        self.under_way = self.most_under_way = 0

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(60 if self.hang else 0)
        finally:
            self.under_way -= 1
        return httpx2.Response(self.status, content=self.body)


def probe(engine: Engine, *suspicions: Suspicion | None, timeout: float = 5.0) -> StallProbe:
    told = iter(suspicions)
    return StallProbe(
        "http://engine:8000/llm",
        lambda now: next(told),
        api_key="key",
        token="token",
        pause_seconds=60.0,
        timeout_seconds=timeout,
        transport=httpx2.MockTransport(engine.answer),
    )


def values(samples: list[Sample]) -> dict[str, float]:
    return {
        s.name.removeprefix("trimtab_engine_probe_"): float(s.value)
        for s in samples
        if isinstance(s.value, float)
    }


def test_nothing_is_sent_without_a_suspicion() -> None:
    engine = Engine()
    assert asyncio.run(probe(engine, None).collect(NOW)) == []
    assert engine.asked == []


def test_a_token_in_time_is_a_success() -> None:
    engine = Engine()
    found = values(asyncio.run(probe(engine, STUCK).collect(NOW)))
    assert found["success"] == 1.0 and 0.0 <= found["seconds"] < 5.0
    (request,) = engine.asked
    assert str(request.url) == "http://engine:8000/llm/v1/completions"
    assert json.loads(request.content) == {"prompt": "1", "max_tokens": 1, "temperature": 0.0, "model": "m"}
    assert request.headers["Authorization"] == "Bearer key"
    assert request.headers["X-Trimtab-Token"] == "token"


def test_an_unknown_model_is_left_out() -> None:
    engine = Engine()
    asyncio.run(probe(engine, Suspicion()).collect(NOW))
    assert "model" not in json.loads(engine.asked[0].content)


def test_no_token_in_time_is_no_success_and_the_request_is_dropped() -> None:
    engine = Engine(hang=True)
    found = values(asyncio.run(probe(engine, STUCK, timeout=0.02).collect(NOW)))
    assert found["success"] == 0.0 and found["seconds"] >= 0.02
    assert engine.under_way == 0


def test_an_engine_that_breaks_on_it_is_no_success() -> None:
    assert values(asyncio.run(probe(Engine(500), STUCK).collect(NOW)))["success"] == 0.0


@pytest.mark.parametrize(
    ("status", "words"),
    [(503, "the gate is closed"), (401, "api_key_file"), (404, "root_path"), (429, "HTTP 429")],
)
def test_a_refusal_is_the_sources_failure_until_the_next_one(status: int, words: str) -> None:
    async def twice() -> None:
        source = probe(Engine(status), STUCK, STUCK, STUCK)
        for second in (0, 5):  # said again while it stands, so that it does not look mended
            with pytest.raises(CollectorError, match=words):
                await source.collect(NOW + second)

    asyncio.run(twice())


def test_an_engine_that_is_gone_is_the_sources_failure() -> None:
    def gone(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    source = StallProbe("http://engine:8000", lambda now: STUCK, transport=httpx2.MockTransport(gone))
    with pytest.raises(CollectorError, match="could not be sent: refused"):
        asyncio.run(source.collect(NOW))


def test_it_is_sent_seldom_and_its_outcome_stands_meanwhile() -> None:
    async def life() -> None:
        engine = Engine()
        source = probe(engine, *[STUCK] * 5)
        for second, sent in ((0, 1), (5, 1), (59, 1), (60, 2), (65, 2)):
            assert values(await source.collect(NOW + second))["success"] == 1.0
            assert len(engine.asked) == sent

    asyncio.run(life())


def test_a_suspicion_that_is_over_takes_the_outcome_with_it() -> None:
    async def life() -> None:
        source = probe(Engine(), STUCK, None, STUCK)
        assert await source.collect(NOW)
        assert await source.collect(NOW + 5) == []
        assert await source.collect(NOW + 10) == [], "within the pause nothing is sent, so nothing is known"

    asyncio.run(life())


def test_an_endless_answer_is_read_no_further() -> None:
    engine = Engine(body=b"x" * (3 * LARGEST_ANSWER_BYTES))
    assert values(asyncio.run(probe(engine, STUCK).collect(NOW)))["success"] == 1.0


def test_there_is_never_a_second_one_at_a_time() -> None:
    async def life() -> Engine:
        engine = Engine(hang=True)
        runner = Runner([probe(engine, *[STUCK] * 4, timeout=0.02)], History())
        await asyncio.gather(*(runner.once(NOW + 100.0 * turn) for turn in range(4)))
        return engine

    engine = asyncio.run(life())
    assert len(engine.asked) == 4 and engine.most_under_way == 1


def test_certificates_that_are_not_there_are_said() -> None:
    with pytest.raises(ValueError, match="cannot be used"):
        StallProbe("https://engine:8000", lambda now: None, ca_file=Path("/nowhere/ca.pem"))
