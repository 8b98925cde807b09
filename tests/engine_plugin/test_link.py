"""The API process's calls into one or several engine processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from trimtab_plugin.control import Controller
from trimtab_plugin.link import EngineLink, LinkError, RanksDiffer

from tests.engine_plugin.fake_engine import FakeClient, FakeScheduler, knobs


def controllers(count: int) -> list[Controller]:
    return [Controller(FakeScheduler()) for _ in range(count)]


def test_a_change_reaches_every_rank() -> None:
    ranks = controllers(3)
    link = EngineLink(FakeClient(*ranks))
    answer = asyncio.run(link.call(knobs({"batch_max_tokens": 256}, 0)))
    assert answer["epoch"] == 1
    assert {rank.call({"op": "state"})["values"]["batch_max_tokens"] for rank in ranks} == {256}
    assert link.refusal() is None


def test_ranks_that_differ_go_back_to_their_launch_values_together() -> None:
    ranks = controllers(2)
    ranks[1].call(knobs({"batch_max_tokens": 512}, 0))
    link = EngineLink(FakeClient(*ranks))
    with pytest.raises(RanksDiffer):
        asyncio.run(link.call({"op": "state"}))
    state = asyncio.run(link.settle())
    assert (state["epoch"], state["values"]["batch_max_tokens"]) == (2, 2048)
    assert asyncio.run(link.call({"op": "state"}))["epoch"] == 2


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"api_servers": 4}, "4 API server processes"), ({"ranks": 8}, "only 2 of 8 data-parallel ranks")],
)
def test_no_change_where_it_cannot_reach_everything(more: dict[str, Any], reason: str) -> None:
    assert reason in (EngineLink(FakeClient(*controllers(2), **more)).refusal() or "")


def test_settling_ranks_of_which_one_is_silent_ends_in_time() -> None:
    class Silent(FakeClient):
        async def _call_utility_async(self, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(60)

    client = Silent(*controllers(2))
    with pytest.raises(LinkError, match="did not answer"):
        asyncio.run(EngineLink(client, timeout=0.05).settle())


def test_an_engine_without_the_plugin_is_said_to_be_one() -> None:
    client = FakeClient(*controllers(1))
    client.fault = Exception(
        "Call to trimtab_call method failed: 'EngineCoreProc' object has no attribute 'trimtab_call'"
    )
    with pytest.raises(LinkError, match="VLLM_PLUGINS"):
        asyncio.run(EngineLink(client).call({"op": "state"}))


def test_a_dead_engine_is_an_error_with_its_reason() -> None:
    client = FakeClient(*controllers(1))
    client.fault = RuntimeError("EngineCore encountered an issue")
    with pytest.raises(LinkError, match="EngineCore encountered an issue"):
        asyncio.run(EngineLink(client).call({"op": "state"}))


def test_an_engine_that_hangs_is_given_up_and_its_change_is_not_made_later() -> None:
    class Hung(FakeClient):
        async def call_utility_async(self, method: str, message: dict[str, Any]) -> Any:
            self.calls.append(message)
            await asyncio.Event().wait()

    [rank] = controllers(1)
    client = Hung(rank)
    with pytest.raises(LinkError, match="did not answer"):
        asyncio.run(EngineLink(client, timeout=0.01).call(knobs({"batch_max_tokens": 256}, 0)))
    assert rank.call(client.calls[0])["code"] == 504
    assert rank.call({"op": "state"})["epoch"] == 0
