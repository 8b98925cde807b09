"""Restarts of a real vLLM server by `trimtab serve`, its daemon and the CLI, under traffic: the short form.

The long one is `python -m bench.acceptance restart-real`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bench import real_restart, real_restart_faults, real_restart_kills
from tests.real.served import ServedVllm

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedVllm]:
    with ServedVllm(tmp_path_factory.mktemp("pair")) as served:
        yield served


def test_restarts_with_other_block_sizes_and_ceilings_lose_no_request(pair: ServedVllm) -> None:
    found = asyncio.run(real_restart.restarts(pair, 2, 0.0, seed=1))
    assert found.good, real_restart.figures(found)
    assert [one.found for one in found.served] == [64, 96]
    assert max(found.waited) > 1.0  # somebody was there to lose


def test_a_flag_that_is_gone_stops_nothing(pair: ServedVllm) -> None:
    met = asyncio.run(real_restart_faults.meet(pair, real_restart_faults.BAD_FLAG, seed=2))
    assert met.wrong == []


def test_a_crash_at_load_costs_one_start_and_one_return(pair: ServedVllm) -> None:
    met = asyncio.run(real_restart_faults.meet(pair, real_restart_faults.CRASH, seed=3))
    assert met.wrong == []


def test_a_daemon_killed_in_a_restart_leaves_the_last_known_good(pair: ServedVllm) -> None:
    found, failures = asyncio.run(real_restart_kills.kills(pair, 1, 12.0, seed=4))
    assert [one.wrong for one in found] == [[]]
    assert failures == []
