"""Every vLLM version and spelling gives the same canonical samples."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.vllm_page import vllm_page
from collectors.engines.engine import EngineCollector, Server
from collectors.engines.vllm import FAMILIES, parse_vllm
from collectors.history import History
from collectors.metrics import METRICS
from collectors.prometheus_text import PageError
from collectors.sample import CollectorError, Distribution, Sample, labels
from tests.collectors.page_server import PageServer, page_server
from tests.prepare import ROOT

DOCS = ROOT / "docs" / "collectors.md"
FIXTURES = Path(__file__).parents[1] / "fixtures" / "vllm"
NOW = 1_700_000_000.0


def read(name: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float | Distribution]:
    samples = parse_vllm((FIXTURES / f"{name}.prom").read_text(), NOW)
    assert {sample.time for sample in samples} == {NOW}
    return {(sample.name, sample.labels): sample.value for sample in samples}


def test_a_recent_page_has_every_canonical_name() -> None:
    names = {name for name, _ in read("vllm_0.32")}
    assert names >= {family.canonical for family in FAMILIES}
    assert names >= {
        "trimtab_engine_kv_cache_blocks",
        "trimtab_engine_kv_cache_block_tokens",
        "trimtab_engine_start_time_seconds",
        "vllm_pending_queries",
    }


def http_errors(*lines: str) -> float | None:
    page = (FIXTURES / "vllm_0.8.prom").read_text() + "".join(
        f"http_requests_total{line}\n" for line in lines
    )
    found = [s.value for s in parse_vllm(page, NOW) if s.name == "trimtab_engine_http_errors_total"]
    assert len(found) <= 1
    value = found[0] if found else None
    assert not isinstance(value, Distribution)
    return value


def test_answers_of_500_and_above_are_counted_over_the_inference_routes() -> None:
    fine = '{handler="/v1/completions",method="POST",status="2xx"} 90.0'
    bad = '{handler="/v1/completions",method="POST",status="5xx"} 3.0'
    chat = '{handler="/v1/chat/completions",method="POST",status="5xx"} 2.0'
    elsewhere = '{handler="/metrics",method="GET",status="5xx"} 7.0'
    assert http_errors() is None
    assert http_errors(elsewhere) is None
    assert http_errors(fine, elsewhere) == 0.0
    assert http_errors(fine, bad, chat, elsewhere) == 5.0


def test_labels_are_the_tables() -> None:
    for name, pairs in read("vllm_0.32"):
        assert {key for key, _ in pairs} <= set(METRICS[name].labels)


def test_the_finish_reason_becomes_reason() -> None:
    found = read("vllm_0.32")
    own = labels(engine="0", model="sample-7b", reason="length")
    assert isinstance(found["trimtab_engine_requests_finished_total", own], float)


def test_the_oldest_names_mean_the_same() -> None:
    found = read("vllm_0.8")
    own = labels(engine="0", model="old-13b")
    assert found["trimtab_engine_kv_cache_usage_ratio", own] == 0.61
    assert found["trimtab_engine_prefix_cache_queried_tokens_total", own] == 4100.0
    assert found["trimtab_engine_prefix_cache_hit_tokens_total", own] == 900.0
    gaps = found["trimtab_engine_itl_seconds", own]
    assert isinstance(gaps, Distribution) and gaps.count == 1010.0
    queued = found["trimtab_engine_queue_seconds", own]
    assert isinstance(queued, Distribution) and queued.sum == 6.5
    assert found["trimtab_engine_kv_cache_block_tokens", labels(engine="0")] == 16.0


def test_where_old_and_new_names_stand_together_the_new_one_counts() -> None:
    found = read("vllm_0.11")
    assert found["trimtab_engine_kv_cache_usage_ratio", labels(engine="1", model="mid-32b")] == 0.5
    gaps = found["trimtab_engine_itl_seconds", labels(engine="0", model="mid-32b")]
    assert isinstance(gaps, Distribution) and gaps.count == 720.0


def test_each_engine_keeps_its_series_and_a_reader_gets_them_combined() -> None:
    history = History()
    history.add(parse_vllm((FIXTURES / "vllm_0.11.prom").read_text(), NOW))
    running, usage = (
        history.latest("trimtab_engine_requests_running"),
        history.latest("trimtab_engine_kv_cache_usage_ratio"),
    )
    assert running is not None and running.value == 14.0
    assert usage is not None and usage.value == 0.5, "the fullest rank"
    second = history.latest("trimtab_engine_requests_running", labels(engine="1"))
    assert second is not None and second.value == 6.0


def test_the_underscore_spelling_gives_the_same_samples() -> None:
    assert parse_vllm(vllm_page(prefix="vllm_"), NOW) == parse_vllm(vllm_page(prefix="vllm:"), NOW)


def test_pending_queries_are_the_waiting_requests() -> None:
    found = read("vllm_0.11")
    own = labels(engine="1", model="mid-32b")
    assert found["vllm_pending_queries", own] == found["trimtab_engine_requests_waiting", own] == 4.0


def test_labels_that_are_not_ours_are_added_up() -> None:
    page = 'vllm:prompt_tokens_total{engine="0",worker="a"} 3\nvllm:prompt_tokens_total{engine="0",worker="b"} 4\n'
    assert parse_vllm(page, NOW) == [
        Sample("trimtab_engine_prompt_tokens_total", 7.0, NOW, labels(engine="0"))
    ]


def test_a_value_that_is_not_a_number_is_absent() -> None:
    page = 'vllm:kv_cache_usage_perc{engine="0"} NaN\nvllm:num_requests_running{engine="0"} 1\n'
    assert [sample.name for sample in parse_vllm(page, NOW)] == ["trimtab_engine_requests_running"]


@pytest.mark.parametrize(
    "page", ["process_start_time_seconds 1\n", "<html>\n<body>Hello</body>\n</html>\n", "\n"]
)
def test_a_page_without_vllms_metrics_says_what_to_check(page: str) -> None:
    with pytest.raises(PageError, match="--disable-log-stats"):
        parse_vllm(page, NOW)


def test_scrapes_a_server_behind_a_root_path_with_its_key() -> None:
    with page_server(PageServer(vllm_page().encode())) as server:
        collector = EngineCollector(
            "vllm", Server(server.url + "/", root_path="/models/a/", api_key="s3cret")
        )
        samples = asyncio.run(collector.collect(NOW))
    path, headers = server.asked[0]
    assert path == "/models/a/metrics"
    assert headers["accept"] == "text/plain;version=0.0.4"
    assert headers["authorization"] == "Bearer s3cret"
    assert samples[:-1] == parse_vllm(vllm_page(), NOW)
    assert samples[-1].name == "trimtab_engine_info"


def test_no_key_no_header() -> None:
    with page_server(PageServer(vllm_page().encode())) as server:
        asyncio.run(EngineCollector("vllm", Server(server.url)).collect(NOW))
    assert server.asked[0][0] == "/metrics"
    assert "authorization" not in server.asked[0][1]


def test_a_page_cut_in_a_line_is_an_error_that_names_the_address() -> None:
    with (
        page_server(PageServer(vllm_page().encode()[:20_000])) as server,
        pytest.raises(CollectorError) as caught,
    ):
        asyncio.run(EngineCollector("vllm", Server(server.url)).collect(NOW))
    assert str(caught.value).startswith(f"{server.url}/metrics: the page is cut off")


def test_the_first_generations_page() -> None:
    found = read("vllm_0.6")
    own = labels(engine="0", model="first-7b")
    assert found["trimtab_engine_requests_running", own] == 7.0
    assert found["trimtab_engine_kv_cache_usage_ratio", own] == 0.83
    assert found["trimtab_engine_preemptions_total", own] == 11.0
    swapped = labels(engine="0", model="first-7b", reason="swapped")
    assert found["trimtab_engine_requests_waiting_by_reason", swapped] == 2.0
    gaps = found["trimtab_engine_itl_seconds", own]
    assert isinstance(gaps, Distribution) and gaps.count == 2032.0
    # A hit rate says nothing of how many were asked for, so the counters stay unknown.
    assert not {name for name, _ in found} & {
        "trimtab_engine_prefix_cache_hit_tokens_total",
        "trimtab_engine_step_tokens",
        "trimtab_engine_queue_seconds",
    }


def test_old_and_new_names_on_one_page_are_not_added_up() -> None:
    found = read("vllm_0.10")
    own = labels(engine="1", model="tenth-14b")
    assert found["trimtab_engine_kv_cache_usage_ratio", own] == 0.44
    assert found["trimtab_engine_prefix_cache_queried_tokens_total", own] == 3000.0
    assert found["trimtab_engine_prefix_cache_hit_tokens_total", own] == 900.0


def test_the_newest_page_has_every_canonical_name_of_four_ranks() -> None:
    found = read("vllm_0.33")
    for family in FAMILIES:
        ranks = {dict(own)["engine"] for name, own in found if name == family.canonical}
        assert ranks == {"0", "1", "2", "3"}, family.canonical


def four_ranks(seconds: float, tokens: list[float], usage: list[float]) -> list[Sample]:
    """A page of four ranks: tokens generated so far, and share of the cache."""
    lines = [
        f'vllm:generation_tokens_total{{engine="{rank}",model_name="m"}} {count}\n'
        for rank, count in enumerate(tokens)
    ] + [
        f'vllm:kv_cache_usage_perc{{engine="{rank}",model_name="m"}} {share}\n'
        for rank, share in enumerate(usage)
    ]
    return parse_vllm("".join(lines), NOW + seconds)


def test_ranks_are_combined_as_the_table_says_and_one_ranks_reset_costs_the_others_nothing() -> None:
    history = History()
    history.add(four_ranks(0, [100, 200, 300, 400], [0.1, 0.2, 0.9, 0.3]), "vllm")
    history.add(four_ranks(10, [150, 260, 370, 480], [0.1, 0.2, 0.8, 0.3]), "vllm")
    # Rank 2 is started anew and has made 20 tokens since.
    history.add(four_ranks(20, [200, 320, 20, 560], [0.2, 0.3, 0.1, 0.4]), "vllm")
    name = "trimtab_engine_generation_tokens_total"
    grown = (200 - 100) + (320 - 200) + (370 - 300 + 20) + (560 - 400)
    assert history.rate(name, NOW + 20, 20) == pytest.approx(grown / 20)
    assert history.rate(name, NOW + 20, 20, labels(engine="2")) == pytest.approx(90 / 20)
    fullest = history.latest("trimtab_engine_kv_cache_usage_ratio")
    assert fullest is not None and fullest.value == 0.4


def test_a_scrape_of_four_ranks_is_summed_family_by_family() -> None:
    history = History()
    history.add(parse_vllm((FIXTURES / "vllm_0.33.prom").read_text(), NOW), "vllm")
    running = history.latest("trimtab_engine_requests_running")
    steps = history.latest("trimtab_engine_step_tokens")
    blocks = history.latest("trimtab_engine_kv_cache_blocks")
    assert running is not None and running.value == 10 + 11 + 12 + 13
    assert steps is not None and isinstance(steps.value, Distribution) and steps.value.count == 4 * 225
    assert blocks is not None and blocks.value == 8000.0


def test_the_docs_have_each_name_by_version() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `trimtab_engine_")]
    told = {(cells[1].strip("` "), cells[2].strip()) for line in rows if (cells := line.split("|"))}
    assert told == {
        (family.canonical, ", ".join(f"`{name}`" for name in family.names)) for family in FAMILIES
    }
