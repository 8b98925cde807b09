"""Priority by size in a real vLLM of --scheduling-policy priority, and its refusal in one without."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import psutil
import pytest

from change.engine import EngineError
from daemon.engine.hot import HotEngine
from tests.real.conversation import switch, talk
from tests.real.engine import PATIENCE_SECONDS, RealEngine, cores
from tests.real.traffic import MODEL_NAME, warm_up

pytestmark = pytest.mark.real

ARGUMENTS = ["--scheduling-policy", "priority", "--max-num-seqs", "1", "--no-enable-prefix-caching"]
OFF, LONG_FIRST, SHORT_FIRST = 0.0, 1.0, 2.0
SHORT, MEDIUM = 60, 700
"""Prompt tokens; the model's context ends before the class of the long ones begins."""
LONG_OUTPUT = 200
"""Of the answer that keeps the engine busy until it has taken in what came while it stood still."""
SENT = (
    ("short 1", SHORT, None, 2),
    ("medium 1", MEDIUM, None, 2),
    ("last of all", MEDIUM, 1000, 2),
    ("short 2", SHORT, None, 2),
    ("medium 2", MEDIUM, None, 2),
    ("first of all", SHORT, -5, 2),
)
"""Name, prompt tokens, the client's own priority and output tokens, in the order of sending."""
ORDERS: dict[float, list[str]] = {
    OFF: ["first of all", "short 1", "medium 1", "short 2", "medium 2", "last of all"],
    LONG_FIRST: ["first of all", "medium 1", "medium 2", "short 1", "short 2", "last of all"],
    SHORT_FIRST: ["first of all", "short 1", "short 2", "medium 1", "medium 2", "last of all"],
}


async def served(engine: RealEngine) -> list[str]:
    """Send all of them behind one request that has the engine to itself; names in the order of their answers."""
    done: list[str] = []

    async def ask(
        client: httpx2.AsyncClient, name: str, tokens: int, priority: int | None, output: int
    ) -> None:
        body: dict[str, Any] = {
            "model": MODEL_NAME,
            "prompt": [7 + len(done)] * tokens,
            "max_tokens": output,
            "ignore_eos": True,
        }
        if priority is not None:
            body["priority"] = priority
        answer = await client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        done.append(name)

    # The engine stands still while they are sent, which takes a busy machine seconds: they meet in its queue.
    stopped = cores(psutil.Process(engine.pid))
    async with httpx2.AsyncClient(base_url=engine.url, timeout=PATIENCE_SECONDS, trust_env=False) as client:
        for core in stopped:
            core.suspend()
        try:
            asked = []
            for name, tokens, priority, output in (("before", SHORT, -1000, LONG_OUTPUT), *SENT):
                asked.append(asyncio.create_task(ask(client, name, tokens, priority, output)))
                await asyncio.sleep(0.05)
            await asyncio.sleep(1.0)  # all of them have come to the engine's door
            assert done == []
        finally:
            for core in stopped:
                core.resume()
        await asyncio.gather(*asked)
    # Which of two with an order of their own is first may be the first to arrive; the others' order may not.
    return [name for name in done if name != "before"]


@pytest.mark.parametrize("version", ["0.32.0", "0.28.0"])
def test_a_real_engine_serves_by_size_and_leaves_the_clients_own_priorities(version: str) -> None:
    with RealEngine(version, ARGUMENTS) as engine:
        asyncio.run(warm_up(engine))

        async def conversation(hot: HotEngine) -> None:
            assert (await hot.state()).values["priority_by_size"] == OFF
            for mode in (OFF, LONG_FIRST, SHORT_FIRST, OFF):
                await switch(hot, priority_by_size=mode)
                assert await served(engine) == ORDERS[mode]

        talk(engine, conversation)


def test_an_engine_that_serves_as_they_come_refuses_it(engine_0_32: RealEngine) -> None:
    async def conversation(hot: HotEngine) -> None:
        state = await hot.state()
        assert "priority_by_size" not in state.values
        with pytest.raises(EngineError, match="--scheduling-policy priority"):
            await hot.set_knobs({"priority_by_size": LONG_FIRST}, if_epoch=state.epoch, lease_seconds=None)

    talk(engine_0_32, conversation)
