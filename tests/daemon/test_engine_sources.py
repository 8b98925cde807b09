"""The engines that are watched: one source each, secrets to their own server only, and readings that never mix."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.vllm_page import vllm_page
from collectors.engines.vllm import parse_vllm
from collectors.history import History
from collectors.sample import Sample, labels
from daemon import assembly, live
from daemon.config import Config
from daemon.engine_sources import engine_sources
from daemon.errors import ConfigError
from daemon.gauges import history_gauges
from tests.collectors.page_server import PageServer, page_server

NOW = 1_700_000_000.0
QUIET = {"npu_smi": {"enabled": False}, "host": {"enabled": False}}


def config(url: str, *others: dict[str, object], **engine: object) -> Config:
    return Config.model_validate(
        {"engine": {"url": url, **engine}, "collect": {**QUIET, "engines": list(others)}}
    )


def test_each_engine_is_a_source_of_its_own() -> None:
    chosen = config("http://a:1", {"name": "b", "url": "http://b:1"}, {"name": "c", "url": "http://c:1"})
    assert [source.name for source in engine_sources(chosen)] == ["vllm", "engine:b", "engine:c"]


@pytest.mark.parametrize(("kind", "name"), [("auto", "vllm"), ("sglang", "sglang"), ("mindie", "mindie")])
def test_the_tuned_engines_source_is_named_after_its_kind(kind: str, name: str) -> None:
    assert engine_sources(config("http://a:1", kind=kind))[0].name == name


def test_a_key_goes_to_its_own_server_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_ENGINE_API_KEY", "tuned-key")
    key = tmp_path / "key"
    key.write_text("watched-key\n")
    page = vllm_page().encode()
    with (
        page_server(PageServer(page)) as a,
        page_server(PageServer(page)) as b,
        page_server(PageServer(page)) as c,
    ):
        chosen = config(
            a.url,
            {"name": "b", "url": b.url, "api_key_file": str(key)},
            {"name": "c", "url": c.url},
        )
        asyncio.run(assembly.runner(chosen, History()).once(NOW))
    told = [{headers.get("authorization") for _, headers in server.asked} for server in (a, b, c)]
    assert told == [{"Bearer tuned-key"}, {"Bearer watched-key"}, {None}]


def test_a_key_that_is_not_there_names_the_engine(tmp_path: Path) -> None:
    chosen = config("http://a:1", {"name": "b", "url": "http://b:1", "api_key_file": str(tmp_path / "none")})
    with pytest.raises(ConfigError, match=r"collect.engines \(b\): api_key_file: .* does not exist"):
        assembly.collectors(chosen, History())


def readings(history: History, now: float) -> str:
    """All that a campaign, the live page and the objective read of the engine."""
    gauges = history_gauges(history)(now)
    return json.dumps(
        [
            repr(gauges),
            live.queue(history),
            live.latency(history, now),
            live.throughput(history, now),
            live.devices(history),
            [
                history.range("trimtab_engine_requests_running", now - 60, now),
                history.mean("trimtab_engine_kv_cache_usage_ratio", now, 60),
                history.mean("trimtab_engine_ttft_seconds", now, 60),
                repr(history.latest("trimtab_engine_start_time_seconds")),
                repr(history.latest("trimtab_engine_info")),
                history.series("trimtab_engine_requests_running"),
            ],
        ]
    )


def as_server(samples: list[Sample], name: str) -> list[Sample]:
    return [Sample(s.name, s.value, s.time, tuple(sorted((*s.labels, ("server", name))))) for s in samples]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2)), min_size=2, max_size=6))
def test_readings_of_the_tuned_engine_never_mix_with_another_ones(pages: list[tuple[int, int, int]]) -> None:
    alone, beside = History(), History()
    for step, (own_seed, other_seed, ranks) in enumerate(pages):
        now = NOW + 5.0 * step
        own = parse_vllm(vllm_page(own_seed), now)
        alone.add(own, "vllm")
        beside.add(own, "vllm")
        if ranks:  # the other engine comes and goes, with the same model and rank labels
            other = parse_vllm(vllm_page(other_seed, engines=ranks), now)
            beside.add(as_server(other, "b"), "engine:b")
        else:
            beside.end("engine:b")
        assert readings(beside, now) == readings(alone, now)


def test_a_tuned_engine_that_is_away_is_unknown_and_not_the_other_one() -> None:
    history = History()
    history.add(as_server(parse_vllm(vllm_page(), NOW), "b"), "engine:b")
    assert history.latest("trimtab_engine_requests_running") is None
    assert history.latest("trimtab_engine_requests_running", labels(engine="0")) is None
    assert history_gauges(history)(NOW).running is None
    other = history.latest("trimtab_engine_requests_running", labels(server="b"))
    assert other is not None and other.value == 12.0


def test_the_probe_is_a_source_only_where_it_is_asked_for() -> None:
    assert "stall_probe" not in assembly.runner(config("http://a:1"), History()).names
    chosen = Config.model_validate({"collect": {**QUIET, "probe": {"enabled": True}}})
    assert "stall_probe" in assembly.runner(chosen, History()).names


def test_a_stuck_engine_is_probed_through_its_own_route() -> None:
    history = History()
    rank = labels(engine="0", model="m")
    for second in range(0, 61, 2):
        history.add(
            [
                Sample("trimtab_engine_requests_running", 4.0, NOW + second, rank),
                Sample("trimtab_engine_generation_tokens_total", 70.0, NOW + second, rank),
            ]
        )
    with page_server(PageServer(b"{}")) as server:
        chosen = Config.model_validate(
            {
                "engine": {"url": server.url, "root_path": "/llm"},
                "collect": {**QUIET, "probe": {"enabled": True, "after_seconds": 30}},
            }
        )
        runner = assembly.runner(chosen, history)
        samples = asyncio.run(runner.once(NOW + 60, "stall_probe"))
    assert [path for path, _ in server.asked] == ["/llm/v1/completions"]
    assert json.loads(server.posted[0])["model"] == "m"
    success = next(s.value for s in samples if s.name == "trimtab_engine_probe_success")
    assert success == 1.0
