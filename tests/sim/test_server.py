"""The served node over real HTTP: completions, the gate, the metrics page, the cards, and the programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from collectors.engines.engine import EngineCollector, Server
from collectors.npu_smi.npu_smi import NpuSmiCollector
from collectors.npu_smi.program import NpuSmi
from collectors.sample import Sample
from daemon.config import Config
from daemon.engine.hot import HotEngine
from daemon.engine_probe import EngineProbe
from sim.metrics_page import MODEL_NAME
from tests.change.engine_contract import EngineContract, Laboratory
from tests.sim.served import START, TOKEN, Served, served

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = {"X-Trimtab-Token": TOKEN}


class TestHotEngineAtTheSimulatedServer(EngineContract):
    @asynccontextmanager
    async def laboratory(self) -> AsyncIterator[Laboratory]:
        async with served() as at, HotEngine(at.url, token=TOKEN) as hot:

            async def advance(seconds: float) -> None:
                at.advance(seconds)

            async def serve() -> None:
                at.advance(15.0)

            yield Laboratory(hot, advance, serve)


def at_server(test: Callable[[Served, httpx2.AsyncClient], Awaitable[None]], **options: Any) -> None:
    async def within() -> None:
        async with served(**options) as at, httpx2.AsyncClient(base_url=at.url, trust_env=False) as client:
            await test(at, client)

    asyncio.run(within())


async def walk(at: Served, answer: asyncio.Task[Any]) -> Any:
    """Move the clock until the answer is there; it takes less than a simulated minute."""
    for _ in range(600):
        if answer.done():
            break
        at.advance(0.1)
        await asyncio.wait([answer], timeout=0.02)
    return await answer


async def stream(client: httpx2.AsyncClient, body: dict[str, Any]) -> list[str]:
    async with client.stream("POST", "/v1/completions", json=body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        return [line async for line in response.aiter_lines() if line]


def test_a_completion_is_served_beside_the_traffic() -> None:
    async def test(at: Served, client: httpx2.AsyncClient) -> None:
        at.advance(20.0)
        call = client.post(
            "/v1/completions", json={"model": MODEL_NAME, "prompt": [5] * 300, "max_tokens": 9}
        )
        answer = (await walk(at, asyncio.create_task(call))).json()
        assert answer["object"] == "text_completion"
        assert answer["usage"] == {"prompt_tokens": 300, "completion_tokens": 9, "total_tokens": 309}
        [choice] = answer["choices"]
        assert choice["finish_reason"] == "length"
        assert choice["text"]
        records = at.node.control.page(0).records
        assert [r.output_tokens for r in records if r.prompt_tokens == 300] == [9]
        assert len(records) > 20

    at_server(test)


def test_a_stream_gives_each_token_as_an_event_and_ends_with_done() -> None:
    async def test(at: Served, client: httpx2.AsyncClient) -> None:
        body = {
            "prompt": "a short text",
            "max_tokens": 12,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        *events, usage, done = await walk(at, asyncio.create_task(stream(client, body)))
        chunks = [json.loads(event.removeprefix("data: ")) for event in events]
        assert done == "data: [DONE]"
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 11 + ["length"]
        assert len({chunk["id"] for chunk in chunks}) == 1
        assert json.loads(usage.removeprefix("data: "))["usage"]["completion_tokens"] == 12

    at_server(test)


def test_a_stream_comes_as_time_goes_by_on_the_machines_clock() -> None:
    async def test(at: Served, client: httpx2.AsyncClient) -> None:
        seen = []
        async with client.stream("POST", "/v1/completions", json={"prompt": "x", "stream": True}) as response:
            async for line in response.aiter_lines():
                if line:
                    seen.append((line, at.node.now))
        assert len(seen) == 17
        assert seen[0][1] < seen[-1][1], "the first token came before the last was made"

    at_server(test, live=True, speed=20.0)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "JSON"),
        (b"[]", 400, "object"),
        (b"{}", 400, "prompt"),
        (b'{"prompt": ""}', 400, "prompt"),
        (b'{"prompt": ["a", "b"]}', 400, "prompt"),
        (b'{"prompt": "x", "model": "another"}', 404, "`another` does not exist"),
        (b'{"prompt": "x", "n": 2}', 400, "n must be 1"),
        (b'{"prompt": "x", "max_tokens": 0}', 400, "max_tokens"),
        (b'{"prompt": "x", "max_tokens": true}', 400, "max_tokens"),
        (b'{"prompt": "x", "max_tokens": 4096}', 400, "maximum context length"),
        (b'{"prompt": "x", "stream": "yes"}', 400, "stream"),
        (b'{"prompt": "' + b"x" * 2_000_000 + b'"}', 413, "over 1048576 bytes"),
    ],
)
def test_a_bad_call_is_told_why_and_makes_no_work(body: bytes, status: int, says: str) -> None:
    async def test(at: Served, client: httpx2.AsyncClient) -> None:
        answer = await client.post("/v1/completions", content=body)
        assert answer.status_code == status
        assert says in answer.json()["error"]["message"]
        assert at.node.running == at.node.waiting == 0

    at_server(test)


def test_a_closed_gate_sends_clients_away_but_not_the_token_and_not_the_readings() -> None:
    async def test(at: Served, client: httpx2.AsyncClient) -> None:
        gate = {"state": "closed", "lease_seconds": 60, "retry_after": 7}
        told = await client.post("/trimtab/v1/gate", json=gate, headers=HEADERS)
        assert told.json() == {"gate": "closed", "lease_remaining_seconds": 60.0, "retry_after": 7.0}
        away = await client.post("/v1/completions", json={"prompt": "x"})
        assert (away.status_code, away.headers["retry-after"]) == (503, "7")
        assert (await client.get("/v1/models")).status_code == 503
        assert (await client.get("/v1/models", headers=HEADERS)).status_code == 200
        for open_to_all in ("/health", "/metrics", "/version"):
            assert (await client.get(open_to_all)).status_code == 200
        at.advance(58.5)
        assert (await client.get("/v1/models")).headers["retry-after"] == "2", "no longer than the lease"
        at.advance(2.0)
        assert (await client.get("/v1/models")).status_code == 200

    at_server(test)


def test_an_engine_that_dies_under_a_client_says_so() -> None:
    async def test(at: Served, client: httpx2.AsyncClient) -> None:
        body = {"prompt": "x", "max_tokens": 4000}
        plain = asyncio.create_task(client.post("/v1/completions", json=body))
        streamed = asyncio.create_task(stream(client, {**body, "stream": True}))
        while at.node.running + at.node.waiting < 2:
            at.advance(0.01)
            await asyncio.sleep(0.01)
        at.node.restart(down_seconds=30.0)
        at.advance(0.01)
        whole, events = await plain, await streamed
        assert (whole.status_code, whole.json()["error"]["message"]) == (500, "the engine died")
        assert "the engine died" in events[-2]
        assert events[-1] == "data: [DONE]"
        for path in ("/health", "/metrics", "/v1/models", "/trimtab/v1/state"):
            assert (await client.get(path)).status_code == 503, path
        at.advance(31.0)
        assert (await client.get("/health")).status_code == 200

    at_server(test)


def test_the_daemons_own_eyes_read_the_server() -> None:
    async def test(at: Served, client: httpx2.AsyncClient) -> None:
        at.advance(30.0)
        samples = await EngineCollector("vllm", Server(at.url)).collect(START)
        names = {sample.name: sample for sample in samples}
        assert names["trimtab_engine_prompt_tokens_total"].value == at.node.engine.prompt_tokens > 0
        assert names["trimtab_engine_start_time_seconds"].value == START
        probe = EngineProbe(Config.model_validate({"engine": {"url": at.url}}), None)
        seen = await probe.look()
        await probe.close()
        assert (seen.reachable, seen.version, seen.model) == (True, "0.32.0", MODEL_NAME)

    at_server(test)


def test_the_npu_smi_program_prints_the_served_nodes_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(at: Served, client: httpx2.AsyncClient) -> None:
        monkeypatch.setenv("TRIMTAB_SIM_URL", at.url)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        at.advance(60.0)
        collector = NpuSmiCollector(NpuSmi([sys.executable, "-m", "sim.npu_smi"]))
        samples: list[Sample] = await collector.collect(START)
        busy = [sample.value for sample in samples if sample.name == "npu_aicore_usage_ratio"]
        assert len(busy) == 4
        assert all(isinstance(share, float) and 0 < share <= 1 for share in busy)
        assert collector.notes == ()

    at_server(test)


def test_the_program_prints_its_address_serves_and_leaves_when_told(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN + "\n")
    command = [
        sys.executable,
        "-m",
        "sim.server",
        "--seed",
        "3",
        "--speed",
        "10",
        "--token-file",
        str(secret),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as child:
        try:
            assert child.stdout is not None
            url = child.stdout.readline().strip()
            with httpx2.Client(base_url=url, trust_env=False, timeout=10.0) as client:
                state = client.get("/trimtab/v1/state").json()
                assert state["boot_id"] == "sim-default-3-1"
                answer = client.post("/v1/completions", json={"prompt": "x", "max_tokens": 2})
                assert answer.json()["usage"]["completion_tokens"] == 2
                change = {"values": {"batch_max_tokens": 1024}, "if_epoch": 0, "lease_seconds": None}
                assert client.post("/trimtab/v1/knobs", json=change).status_code == 401
                assert client.post("/trimtab/v1/knobs", json=change, headers=HEADERS).json()["epoch"] == 1
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(10)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--speed", "0"], "--speed must be above 0"),
        (["--port", "70000"], "--port must be from 0"),
        (["--seed", "-1"], "--seed must be 0 or more"),
        (["--scenario", "none"], "invalid choice"),
        (["--token-file", "/nowhere/token"], "No such file"),
    ],
)
def test_wrong_arguments_are_a_usage_error(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from sim.server import main

    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert says in capsys.readouterr().err
