"""SGLang's pages give the same canonical samples as vLLM's, and its ranks count once."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.engines.kinds import read_page
from collectors.engines.stall import rank_stalls
from collectors.history import History
from collectors.metrics import METRICS
from collectors.prometheus_text import PageError
from collectors.sample import Distribution, Labels, labels

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sglang"
NOW = 1_700_000_000.0
PREFILL = "sglang_0.5_prefill_dp2"


def text(name: str) -> str:
    return (FIXTURES / f"{name}.prom").read_text()


def read(page: str) -> dict[tuple[str, Labels], float | Distribution]:
    return {(s.name, s.labels): s.value for s in read_page(page, NOW, "sglang").samples}


def test_the_page_of_the_documentation() -> None:
    found = read(text("sglang_0.4"))
    own = labels(engine="0", model="s-8b")
    assert found["trimtab_engine_requests_running", own] == 16.0
    assert found["trimtab_engine_requests_waiting", own] == found["vllm_pending_queries", own] == 28.0
    assert found["trimtab_engine_kv_cache_usage_ratio", own] == 0.37
    assert found["trimtab_engine_prompt_tokens_total", own] == 81000.0
    gaps = found["trimtab_engine_itl_seconds", own]
    assert isinstance(gaps, Distribution) and (gaps.count, gaps.sum) == (7470.0, 250.25)


def test_only_the_lowest_tensor_parallel_rank_and_only_all_priorities_count() -> None:
    found = read(text(PREFILL))
    first, second = labels(engine="0", model="s-moe"), labels(engine="1", model="s-moe")
    assert found["trimtab_engine_requests_running", first] == 6.0
    assert found["trimtab_engine_requests_running", second] == 9.0
    assert found["trimtab_engine_requests_waiting", second] == 4.0
    assert found["trimtab_engine_preemptions_total", second] == 7.0
    queued = found["trimtab_engine_queue_seconds", second]
    assert isinstance(queued, Distribution) and (queued.count, queued.sum) == (8.0, 2.5)


def test_priorities_without_a_total_are_added_up() -> None:
    page = "".join(
        f'sglang:prompt_tokens_total{{model_name="m",priority="{priority}"}} {count}\n'
        for priority, count in ((1, 30), (2, 12))
    )
    own = labels(engine="0", model="m")
    assert read(page)["trimtab_engine_prompt_tokens_total", own] == 42.0


def test_the_copies_of_the_model_are_combined_as_the_table_says() -> None:
    history = History()
    history.add(read_page(text(PREFILL), NOW).samples, "sglang")
    running = history.latest("trimtab_engine_requests_running")
    usage = history.latest("trimtab_engine_kv_cache_usage_ratio")
    assert running is not None and running.value == 15.0
    assert usage is not None and usage.value == 0.75


def test_streamed_and_whole_answers_and_cache_levels_are_added_up() -> None:
    found = read(text(PREFILL))
    own = labels(model="s-moe")  # counted for both ranks together
    assert found["trimtab_engine_prompt_tokens_total", own] == 6000.0
    assert found["trimtab_engine_requests_finished_total", own] == 40.0
    assert found["trimtab_engine_prefix_cache_queried_tokens_total", own] == 6000.0
    assert found["trimtab_engine_prefix_cache_hit_tokens_total", own] == 1200.0
    first = found["trimtab_engine_ttft_seconds", own]
    assert isinstance(first, Distribution) and first.count == 40.0


def test_hits_that_nobody_counted_are_absent() -> None:
    names = {name for name, _ in read(text("sglang_0.4"))}
    assert "trimtab_engine_prefix_cache_hit_tokens_total" not in names


def test_the_queues_of_a_pair_are_told_apart() -> None:
    found = read(text(PREFILL))
    waiting = {
        dict(own)["reason"]: value
        for (name, own), value in found.items()
        if name == "trimtab_engine_requests_waiting_by_reason" and dict(own)["engine"] == "1"
    }
    assert waiting == {"grammar": 1.0, "prefill_bootstrap": 0.0, "prefill_inflight": 2.0}


def test_failed_answers_are_counted_over_the_inference_routes() -> None:
    assert read(text(PREFILL))["trimtab_engine_http_errors_total", ()] == 2.0


def test_the_cache_of_one_release_stands_in_an_info_metric() -> None:
    page = (
        'sglang:num_running_reqs{model_name="m"} 1\n'
        'sglang:cache_config_info{model_name="m",num_pages="700",page_size="128"} 1\n'
    )
    found = read(page)
    own = labels(engine="0", model="m")
    assert found["trimtab_engine_kv_cache_blocks", own] == 700.0
    assert found["trimtab_engine_kv_cache_block_tokens", own] == 128.0


@pytest.mark.parametrize(("said", "role"), [("prefill", "prefill"), ("decode", "decode"), ("unified", None)])
def test_the_role_stands_on_the_page(said: str, role: str | None) -> None:
    page = text(PREFILL).replace('engine_type="prefill"', f'engine_type="{said}"')
    assert read_page(page, NOW).role == role


def test_the_underscore_spelling_gives_the_same_samples() -> None:
    page = text(PREFILL)
    assert read(page.replace("sglang:", "sglang_")) == read(page)


def test_labels_are_the_tables() -> None:
    for name, pairs in read(text(PREFILL)):
        assert {key for key, _ in pairs} <= set(METRICS[name].labels)


def test_metrics_that_are_off_are_said() -> None:
    with pytest.raises(PageError, match="--enable-metrics"):
        read("python_info 1\n")


def test_a_page_cut_in_a_histogram_is_refused() -> None:
    page = text(PREFILL)
    at = page.index("sglang:queue_time_seconds_count")
    with pytest.raises(PageError, match="lacks buckets, _sum or _count"):
        read(page[:at])


def test_the_ranks_of_a_server_that_counts_tokens_for_all_of_them_are_alive_together() -> None:
    history = History()
    quiet = text(PREFILL).replace("sglang:generation_tokens_total{", "sglang:unread{")
    for second in range(0, 130, 5):
        counted = f'sglang:generation_tokens_total{{model_name="s-moe"}} {100 + second}\n'
        history.add(read_page(quiet + counted, NOW + second).samples, "sglang")
    stalls = rank_stalls(history, NOW + 125, 60.0)
    assert stalls == {labels(engine=rank, model="s-moe"): False for rank in ("0", "1")}
