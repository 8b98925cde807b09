"""The plugin in real vLLM servers: switches, leases, the gate, hostile requests, and its figures against theirs."""

from __future__ import annotations

import asyncio
import math
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from change.engine import GAP_BASE_SECONDS, GAP_RATIO, EngineState, RequestRecord
from daemon.engine.hot import HotEngine
from tests.real.conversation import Gaps, read_all, switch, talk
from tests.real.engine import PATIENCE_SECONDS, RealEngine, Traffic, TrafficReport
from tests.real.scrape import Scrape
from tests.real.switches import Switches, switches_beside

pytestmark = pytest.mark.real

Say = Callable[[str], None]
"""Prints a measured figure."""
ATTEMPTS = 3
"""A machine that others keep busy may spoil a latency, not make one better: the least disturbed attempt counts."""
Figure = Callable[[list[RequestRecord], dict[int, int]], float]


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(q * len(values)) - 1)]


def check(report: TrafficReport) -> None:
    assert report.sent > 0
    assert report.failures == []
    assert report.succeeded == report.sent


@pytest.mark.parametrize("version", ["0.32.0", "0.28.0"])
def test_the_plugin_is_found_by_the_engine_and_knows_its_scheduler(
    version: str, request: pytest.FixtureRequest
) -> None:
    engine: RealEngine = request.getfixturevalue("engine_" + version.rpartition(".")[0].replace(".", "_"))

    async def read(hot: HotEngine) -> EngineState:
        return await hot.state()

    state = talk(engine, read)
    assert (state.engine, state.engine_version) == ("vllm", version)
    assert state.scheduler_known, state.scheduler
    assert state.boot_id.count("-") == 2
    assert set(state.values) == {
        "batch_max_tokens",
        "max_prefill_tokens",
        "long_prefill_tokens",
        "max_num_seqs",
        "watermark",
    }
    assert state.ceilings["max_num_seqs"] == (32 if version == "0.32.0" else 64)


def test_an_idle_engine_switches_in_milliseconds(engine_0_32: RealEngine, say: Say) -> None:
    times = asyncio.run(switches_beside(engine_0_32, 60, 0.01)).took
    p50, p99 = statistics.median(times), quantile(times, 0.99)
    say(f"idle switch: p50 {p50 * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms of {len(times)}")
    assert p50 <= 0.005


def test_a_loaded_engine_switches_within_a_step_and_nothing_is_lost(
    engine_0_32: RealEngine, acceptance: bool, say: Say
) -> None:
    """At most the longest step and 10 ms.

    Where other work keeps the machine busy, requests that never reach the engine take longer than that 10 ms by
    themselves; the short form then allows what those took in the same seconds. It holds nine switches of ten to that:
    of fifty the 99th percentile is the longest one, and a machine whose cores the load fills stalls so long by itself.
    """

    async def conversation(hot: HotEngine) -> tuple[Switches, float, TrafficReport]:
        traffic, gaps = Traffic(engine_0_32, 8.0, seed=11), Gaps(engine_0_32)
        count = 200 if acceptance else 50
        async with gaps, traffic:
            await asyncio.sleep(2)
            times = await switches_beside(engine_0_32, count, 0.2)
        return times, gaps.longest, traffic.report

    for _ in range(ATTEMPTS):
        times, longest, report = talk(engine_0_32, conversation)
        p50, p90, p99 = (quantile(times.took, q) for q in (0.5, 0.9, 0.99))
        beside = quantile(times.beside, 0.99)
        say(
            f"loaded switch: p50 {p50 * 1e3:.2f} ms, p90 {p90 * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms of "
            f"{len(times.took)}; longest step "
            f"{longest * 1e3:.1f} ms; p99 of a request without the engine {beside * 1e3:.1f} ms; "
            f"{report.succeeded} of {report.sent} requests fine"
        )
        check(report)
        if (p99 <= longest + 0.010) if acceptance else (p90 <= longest + max(0.010, beside)):
            return
    pytest.fail(f"no attempt of {ATTEMPTS} switched within the longest step and 10 ms")


def test_every_knob_switches_under_load_and_each_effective_value_is_the_requested(
    engine_0_32: RealEngine, say: Say
) -> None:
    configs: list[dict[str, float]] = [
        {"batch_max_tokens": 128, "max_num_seqs": 8},
        {"max_prefill_tokens": 128, "batch_max_tokens": 4096, "max_num_seqs": 32},
        {"max_prefill_tokens": 0, "long_prefill_tokens": 256},
        {"long_prefill_tokens": 0, "watermark": 0.1},
        {"watermark": 0.0, "max_num_seqs": 1},
        {"max_num_seqs": 32},
    ]

    async def conversation(hot: HotEngine) -> TrafficReport:
        traffic = Traffic(engine_0_32, 6.0, seed=12, outputs=(8, 24))
        async with traffic:
            for values in configs:
                await switch(hot, lease=30, **values)
                await asyncio.sleep(1.0)
        return traffic.report

    report = talk(engine_0_32, conversation)
    say(f"{len(configs)} configs of five knobs: {report.succeeded} of {report.sent} requests fine")
    check(report)


PREFILLED = re.compile(r"Iteration\(\d+\): \d+ context requests, (\d+) context tokens")


def test_a_prefill_cap_holds_in_every_step(engine_0_32: RealEngine, say: Say) -> None:
    def prefilled(begin: int) -> list[int]:
        text = engine_0_32.log_file.read_bytes()[begin:].decode(errors="replace")
        return [int(tokens) for tokens in PREFILLED.findall(text)]

    async def conversation(hot: HotEngine) -> tuple[list[int], list[int], TrafficReport]:
        begin = engine_0_32.log_file.stat().st_size
        check(await Traffic(engine_0_32, 6.0, seed=13).run(3))
        free = prefilled(begin)
        await switch(hot, lease=60, max_prefill_tokens=128)
        begin = engine_0_32.log_file.stat().st_size
        report = await Traffic(engine_0_32, 6.0, seed=13).run(6)
        return free, prefilled(begin), report

    free, capped, report = talk(engine_0_32, conversation)
    say(
        f"prompt tokens a step: at most {max(free)} without a cap, {max(capped)} of {len(capped)} steps under 128"
    )
    check(report)
    assert max(free) > 256
    assert 64 < max(capped) <= 128


COUNTERS: dict[str, tuple[str, Figure]] = {
    "requests": ("vllm:request_success_total", lambda records, gaps: len(records)),
    "output tokens": (
        "vllm:generation_tokens_total",
        lambda records, gaps: sum(record.output_tokens for record in records),
    ),
    "prompt tokens": (
        "vllm:prompt_tokens_total",
        lambda records, gaps: sum(record.prompt_tokens for record in records),
    ),
    "gaps": ("vllm:inter_token_latency_seconds_count", lambda records, gaps: sum(gaps.values())),
    "gap seconds": (
        "vllm:inter_token_latency_seconds_sum",
        lambda records, gaps: sum(n * GAP_BASE_SECONDS * GAP_RATIO ** (b + 0.5) for b, n in gaps.items()),
    ),
    "TTFT seconds": (
        "vllm:time_to_first_token_seconds_sum",
        lambda records, gaps: sum((record.first_token or math.nan) - record.arrival for record in records),
    ),
    "e2e seconds": (
        "vllm:e2e_request_latency_seconds_sum",
        lambda records, gaps: sum(record.finish - record.arrival for record in records),
    ),
    "queue seconds": (
        "vllm:request_queue_time_seconds_sum",
        lambda records, gaps: sum(record.queued_seconds for record in records),
    ),
}
"""What the server counts and how the same follows from the ring: records and token gaps by bucket."""


def test_the_rings_figures_are_the_servers_own(engine_0_32: RealEngine, say: Say) -> None:
    engine = engine_0_32

    async def conversation(
        hot: HotEngine,
    ) -> tuple[Scrape, Scrape, list[RequestRecord], dict[int, int], TrafficReport]:
        _, last = await read_all(hot)
        # An epoch of its own, so that its gaps are those of this traffic.
        epoch = (await switch(hot, lease=60, batch_max_tokens=2048)).epoch
        before = Scrape(engine)
        report = await Traffic(engine, 8.0, seed=14).run(10)
        after = Scrape(engine)
        records, page = await read_all(hot, last.next_since)
        return before, after, records, dict(page.gaps[epoch]), report

    before, after, records, gaps, report = talk(engine, conversation)
    check(report)
    assert len(records) == report.sent
    for what, (name, ours) in COUNTERS.items():
        server, ring = after.total(name) - before.total(name), ours(records, gaps)
        say(f"{what}: server {server:.6g}, ring {ring:.6g}")
        assert ring == pytest.approx(server, rel=0.02), what


def test_an_unrenewed_lease_brings_the_incumbent_back_by_itself(engine_0_32: RealEngine, say: Say) -> None:
    async def idle(hot: HotEngine) -> None:
        before = await hot.state()
        await switch(hot, lease=1.5, batch_max_tokens=256)
        await asyncio.sleep(2.0)
        after = await hot.state()
        assert (after.epoch, dict(after.values)) == (before.epoch + 2, dict(before.values))

    async def loaded(hot: HotEngine) -> TrafficReport:
        before = await hot.state()
        _, last = await read_all(hot)
        traffic = Traffic(engine_0_32, 8.0, seed=15)
        async with traffic:
            await asyncio.sleep(1)
            begin = time.time()
            await switch(hot, lease=2.0, batch_max_tokens=256)
            await asyncio.sleep(4)  # nobody asks for anything meanwhile
        records, page = await read_all(hot, last.next_since)
        epochs = [before.epoch, before.epoch + 1, before.epoch + 2]
        assert {record.epoch_first_token for record in records} == set(epochs)
        assert set(epochs) <= set(page.gaps)
        leased = [
            record.first_token or math.nan for record in records if record.epoch_first_token == epochs[1]
        ]
        say(
            f"a lease of 2 s: first tokens under it from {min(leased) - begin:.3f} to {max(leased) - begin:.3f} s"
        )
        assert min(leased) - begin >= -0.1
        assert max(leased) - begin <= 2.0 + 1.0
        return traffic.report

    talk(engine_0_32, idle)
    check(talk(engine_0_32, loaded))


def test_a_renewed_lease_holds(engine_0_32: RealEngine) -> None:
    async def conversation(hot: HotEngine) -> None:
        answer = await switch(hot, lease=1.0, batch_max_tokens=256)
        for _ in range(4):
            await asyncio.sleep(0.5)
            again = await hot.set_knobs({"batch_max_tokens": 256}, if_epoch=answer.epoch, lease_seconds=1.0)
            assert again.epoch == answer.epoch
        assert (await hot.state()).values["batch_max_tokens"] == 256

    talk(engine_0_32, conversation)


def test_the_gate_turns_new_requests_away_lets_running_ones_finish_and_reopens(
    engine_0_32: RealEngine,
) -> None:
    async def conversation(hot: HotEngine) -> tuple[TrafficReport, TrafficReport]:
        async with httpx2.AsyncClient(
            base_url=engine_0_32.url, trust_env=False, timeout=PATIENCE_SECONDS
        ) as client:
            traffic = Traffic(engine_0_32, 10.0, seed=16, outputs=(200, 200))
            before = await asyncio.to_thread(Scrape, engine_0_32)
            running = asyncio.create_task(traffic.run(1.0))
            await asyncio.sleep(1.0)
            for _ in range(100):
                # All that was sent is in the engine or through it, so none can meet the gate.
                now = await asyncio.to_thread(Scrape, engine_0_32)
                inside = now.total("vllm:num_requests_running") + now.total("vllm:num_requests_waiting")
                done = now.total("vllm:request_success_total") - before.total("vllm:request_success_total")
                if inside and inside + done == traffic.report.sent:
                    break
                await asyncio.sleep(0.02)
            await hot.gate("closed", lease_seconds=2.0, retry_after=2.0)
            refused = await client.get("/v1/models")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/metrics")).status_code == 200
            assert (await hot.state()).gate == "closed"
            passed = await Traffic(engine_0_32, 10.0, seed=17, headers=engine_0_32.headers).run(0.5)
            begin = time.monotonic()
            while True:
                # An answer counts for the moment it was asked for: how long a busy machine takes is not the lease's.
                asked = time.monotonic() - begin
                if (await client.get("/v1/models")).status_code != 503:
                    break
                assert asked < 5
                await asyncio.sleep(0.05)
            return await running, passed

    for report in talk(engine_0_32, conversation):
        check(report)


CURRENT = -1
"""Stands for the epoch the engine is at."""

HOSTILE: list[tuple[int, dict[str, Any]]] = [
    (401, {"headers": {"X-Trimtab-Token": "guess"}}),
    (401, {"headers": {"X-Trimtab-Token": ""}}),
    (422, {"json": {"values": {"nonsense": 1}, "if_epoch": CURRENT}}),
    (422, {"json": {"values": {"batch_max_tokens": 10**9}, "if_epoch": CURRENT}}),
    (422, {"json": {"values": {"max_num_seqs": 0}, "if_epoch": CURRENT}}),
    (409, {"json": {"values": {"batch_max_tokens": 256}, "if_epoch": 10**6}}),
    (400, {"content": b"{values"}),
    (400, {"content": b"[" * 50_000}),
    (413, {"content": b" " * 10_000_000}),
    (405, {"method": "DELETE"}),
]


@pytest.mark.parametrize("version", ["0.32.0", "0.28.0"])
def test_hostile_requests_leave_the_engine_as_it_was(version: str, request: pytest.FixtureRequest) -> None:
    engine: RealEngine = request.getfixturevalue("engine_" + version.rpartition(".")[0].replace(".", "_"))

    async def conversation(hot: HotEngine) -> TrafficReport:
        before = await hot.state()
        traffic = Traffic(engine, 4.0, seed=18, outputs=(8, 16))
        async with traffic:
            for status, how in HOSTILE:
                more = {"method": "POST", "headers": engine.headers, **how}
                if more.get("json", {}).get("if_epoch") == CURRENT:
                    more["json"] = {**more["json"], "if_epoch": before.epoch}
                async with httpx2.AsyncClient(
                    base_url=engine.url, trust_env=False, timeout=PATIENCE_SECONDS
                ) as client:
                    response = await client.request(url="/trimtab/v1/knobs", **more)
                assert response.status_code == status, response.text
                assert response.json()["error"]
                # Users' requests come and go meanwhile.
                assert replace(await hot.state(), requests_inside=before.requests_inside) == before
            await asyncio.sleep(1)
        return traffic.report

    check(talk(engine, conversation))


def test_the_running_cap_goes_down_and_up_under_load_on_0_28(
    engine_0_28: RealEngine, acceptance: bool, say: Say
) -> None:
    """On this version a cap lowered without the ratchet ends the engine with an AssertionError."""
    count = 50 if acceptance else 6

    async def running() -> int:
        return int((await asyncio.to_thread(Scrape, engine_0_28)).total("vllm:num_requests_running"))

    async def until(wanted: Callable[[int], bool]) -> int:
        begin = time.monotonic()
        while not wanted(now := await running()):
            assert time.monotonic() - begin < 180, f"{now} requests are running"
            await asyncio.sleep(0.05)
        return now

    async def conversation(hot: HotEngine) -> tuple[list[int], int, TrafficReport]:
        traffic = Traffic(
            engine_0_28, 30.0, seed=19, prompts=((128, 1.0),), outputs=(100, 200), at_once=24, patience=120
        )
        found: list[int] = []
        draining = 0
        async with traffic:
            while draining < count and len(found) < 3 * count:
                found.append(await until(lambda now: now >= 12))
                draining += (await switch(hot, lease=60, max_num_seqs=2)).status == "draining"
                if len(found) % 6 == 1:
                    await until(lambda now: now <= 2)
                else:
                    await asyncio.sleep(0.4)
                await switch(hot, lease=60, max_num_seqs=64)
        return found, draining, traffic.report

    found, draining, report = talk(engine_0_28, conversation)
    say(
        f"0.28.0, cap 64 to 2 and back {len(found)} times with {min(found)} to {max(found)} running, "
        f"{draining} drained; {report.succeeded} of {report.sent} requests fine"
    )
    assert engine_0_28.alive
    check(report)
    assert draining == count
