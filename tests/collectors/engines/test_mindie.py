"""MindIE's page gives the same canonical samples as vLLM's, through a map of its names."""

from __future__ import annotations

from pathlib import Path

import pytest

from change.catalogue.rows import catalogue
from collectors.engines.kinds import read_page
from collectors.metrics import METRICS
from collectors.prometheus_text import PageError
from collectors.sample import Distribution, Labels, labels

PAGE = (Path(__file__).parents[1] / "fixtures" / "mindie" / "mindie_2.1.prom").read_text()
NOW = 1_700_000_000.0
OWN = labels(engine="0", model="mind-70b")


def read(page: str) -> dict[tuple[str, Labels], float | Distribution]:
    return {(s.name, s.labels): s.value for s in read_page(page, NOW, "mindie").samples}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("requests_running", 12.0),
        ("requests_waiting", 8.0),
        ("kv_cache_usage_ratio", 0.62),
        ("preemptions_total", 17.0),
        ("prompt_tokens_total", 9600.0),
        ("generation_tokens_total", 4800.0),
        ("prefix_cache_queried_tokens_total", 8000.0),
        ("prefix_cache_hit_tokens_total", 2000.0),
    ],
)
def test_a_name_is_read(name: str, value: float) -> None:
    assert read(PAGE)[f"trimtab_engine_{name}", OWN] == value


def test_success_failure_and_swapping_are_reasons() -> None:
    found = read(PAGE)
    for name, reason, value in (
        ("trimtab_engine_requests_finished_total", "success", 96.0),
        ("trimtab_engine_requests_finished_total", "error", 4.0),
        ("trimtab_engine_requests_waiting_by_reason", "swapped", 3.0),
    ):
        assert found[name, labels(engine="0", model="mind-70b", reason=reason)] == value


def test_histograms_are_read() -> None:
    found = read(PAGE)
    for name, count, total in (
        ("ttft_seconds", 100.0, 60.5),
        ("itl_seconds", 4704.0, 240.75),
        ("e2e_seconds", 100.0, 400.0),
        ("request_prompt_tokens", 100.0, 9600.0),
    ):
        value = found[f"trimtab_engine_{name}", OWN]
        assert isinstance(value, Distribution) and (value.count, value.sum) == (count, total)


def test_a_release_without_the_counts_of_the_prefix_cache_says_nothing_of_it() -> None:
    page = "".join(line for line in PAGE.splitlines(keepends=True) if "radix" not in line)
    assert not [name for name, _ in read(page) if "prefix_cache" in name]


def test_labels_are_the_tables() -> None:
    for name, pairs in read(PAGE):
        assert {key for key, _ in pairs} <= set(METRICS[name].labels)


def test_monitoring_that_is_off_is_said() -> None:
    with pytest.raises(PageError, match="MIES_SERVICE_MONITOR_MODE=1"):
        read("exposer_scrapes_total 3\n")


def test_a_cut_page_is_refused() -> None:
    with pytest.raises(PageError, match="cut off"):
        read(PAGE[:-1])


def test_its_settings_are_listed_under_the_names_of_the_other_engines_knobs() -> None:
    rows = {row.flag: row.name for row in catalogue("mindie", None)}
    assert rows["maxPrefillTokens"] == "max_prefill_tokens"
    assert rows["maxBatchSize"] == "max_num_seqs"
    assert rows["maxSeqLen"] == "max_model_len"
    assert rows["cacheBlockSize"] == "block_size"
