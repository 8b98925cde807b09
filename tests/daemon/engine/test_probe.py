"""What the probe of a restart asks, and how it reads the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.restart.ports import ProbeFailed
from change.server import Settings
from daemon.engine.probe import EngineRestartProbe, Golden, first_difference, requests_inside

PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="kv"} 4.0
"""


async def nothing(log: Sequence[str]) -> Settings:
    return {"lines": len(log)}


class Server:
    """Answers as a vLLM server with a closed gate does: only who has the token is let in."""

    def __init__(self, tokens: Sequence[str] = (" Paris",)) -> None:
        self.tokens = list(tokens)
        self.bodies: list[dict[str, object]] = []
        self.status = 200

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/health":
            return httpx2.Response(self.status)
        if request.url.path == "/metrics":
            return httpx2.Response(200, text=PAGE)
        if request.headers.get("X-Trimtab-Token") != "t":
            return httpx2.Response(503)
        if request.url.path == "/v1/models":
            return httpx2.Response(200, json={"data": [{"id": "m"}]})
        self.bodies.append(json.loads(request.content))
        return httpx2.Response(self.status, json={"choices": [{"logprobs": {"tokens": self.tokens}}]})


def probe(answer: Callable[[httpx2.Request], httpx2.Response], token: str = "t") -> EngineRestartProbe:
    return EngineRestartProbe(
        "http://127.0.0.1:8000",
        token=token,
        api_key="k",
        golden=[Golden("The capital of France is", (" Paris",))],
        effective=nothing,
        transport=httpx2.MockTransport(answer),
    )


def test_a_token_comes_through_the_closed_gate_and_only_with_the_secret() -> None:
    server = Server()
    asyncio.run(probe(server).one_token())
    (body,) = server.bodies
    assert (body["max_tokens"], body["model"], body["temperature"]) == (1, "m", 0.0)
    with pytest.raises(ProbeFailed, match="503"):
        asyncio.run(probe(server, token="other").one_token())


def test_a_dead_engine_is_not_well_and_says_nothing_of_its_requests() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    assert not asyncio.run(probe(refuse).healthy())
    assert asyncio.run(probe(refuse).inside()) is None
    with pytest.raises(ProbeFailed, match="refused"):
        asyncio.run(probe(refuse).warm_up())


def test_health_counts_by_its_status() -> None:
    server = Server()
    assert asyncio.run(probe(server).healthy())
    server.status = 503
    assert not asyncio.run(probe(server).healthy())


def test_requests_inside_are_those_of_all_ranks_running_and_waiting() -> None:
    assert asyncio.run(probe(Server()).inside()) == 9
    assert requests_inside(PAGE.replace("vllm:", "vllm_")) == 9
    assert requests_inside("sglang:num_running_reqs 2\nsglang:num_queue_reqs 1\n") == 3
    assert requests_inside("# nothing\n") is None
    assert requests_inside("vllm:num_requests_running NaN\n") is None


@given(st.text(max_size=300))
def test_no_page_breaks_the_count(page: str) -> None:
    found = requests_inside(page)
    assert found is None or isinstance(found, int)


def test_golden_prompts_pass_token_by_token() -> None:
    assert asyncio.run(probe(Server([" Paris"])).golden()) == []
    assert asyncio.run(probe(Server(["\u0120Paris"])).golden()) == []
    assert asyncio.run(probe(Server([" the"])).golden()) == [
        "golden prompt 1: token 1 is ' the', not ' Paris'"
    ]
    assert "nothing" in asyncio.run(probe(Server([])).golden())[0]


def test_no_golden_prompt_proves_nothing() -> None:
    bare = EngineRestartProbe("http://127.0.0.1:8000", token=None, api_key=None, effective=nothing)
    assert probe(Server([])).has_golden
    assert not bare.has_golden
    with pytest.raises(ProbeFailed, match=r"engine\.restart\.golden"):
        asyncio.run(bare.golden())


@given(st.lists(st.text(max_size=3), max_size=6), st.lists(st.text(max_size=3), max_size=3))
def test_more_tokens_than_were_expected_are_no_difference(expected: list[str], more: list[str]) -> None:
    assert first_difference(expected, [*expected, *more]) is None
