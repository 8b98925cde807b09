"""The /metrics page: every name of the table, accepted by promtool, and nothing of what is gone."""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import threading
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from collectors.engines.vllm import parse_vllm
from collectors.history import History
from collectors.metrics import METRICS
from collectors.npu_exporter.npu_exporter import parse_npu_exporter
from collectors.npu_smi.samples import table_samples
from collectors.npu_smi.table import parse_table
from collectors.runner import Runner
from collectors.sample import CollectorError, Distribution, Sample, labels
from daemon.exporter import Exporter, SelfState, render
from daemon.web_server import add_metrics
from tests.prepare import ROOT, find_program

GOLDEN = Path(__file__).parent / "metrics_page.prom"
FIXTURES = ROOT / "tests" / "collectors" / "fixtures"
NOW = 1_700_000_000.0
OWN = {
    "trimtab_build_info",
    "trimtab_mode",
    "trimtab_paused",
    "trimtab_campaign_active",
    "trimtab_restart_active",
    "trimtab_restart_time_seconds",
    "trimtab_switches_total",
    "trimtab_sample_age_seconds",
    "trimtab_history_series",
    "trimtab_history_refused_samples_total",
}
"""What the exporter says without a sample."""


def state() -> SelfState:
    return SelfState(
        "1.2.3", "advise", campaign_active=True, switches=7, restart_active=True, restart_time=NOW - 1.5
    )


def exporter(history: History, now: float = NOW) -> Exporter:
    return Exporter(history, state, clock=lambda: now)


def one_of_each() -> History:
    """A history with one sample of every name in the table."""
    history = History()
    samples = []
    for number, metric in enumerate(METRICS.values()):
        if metric.name in OWN:
            continue
        value: float | Distribution = float(number)
        if metric.kind == "histogram":
            value = Distribution((0.005, 1.0, 2500.0, math.inf), (1.0, 2.0, 3.0, 4.0), 6.5, 4.0)
        own = {label: f"a {label}" for label in metric.labels}
        samples.append(Sample(metric.name, value, NOW - 2.5, labels(**own)))
    history.add(samples, source="vllm")
    return history


def values(page: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def names(page: bytes) -> set[str]:
    return {line.split()[2] for line in page.decode().splitlines() if line.startswith("# TYPE")}


def check(page: bytes) -> None:
    """Let promtool judge a page."""
    promtool = find_program("promtool")
    assert promtool is not None
    done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_whole_page_is_the_golden_one() -> None:
    page = exporter(one_of_each()).page()
    if os.environ.get("WRITE_GOLDEN"):
        GOLDEN.write_bytes(page)
    assert page.decode() == GOLDEN.read_text(), "run it with WRITE_GOLDEN=1 if the change is meant"


def test_every_name_of_the_table_is_on_the_page_once_and_in_its_order() -> None:
    page = exporter(one_of_each()).page().decode()
    assert [line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")] == list(METRICS)


@pytest.mark.debian("promtool")
def test_promtool_has_no_complaint_about_the_whole_page() -> None:
    check(GOLDEN.read_bytes())


@pytest.mark.debian("promtool")
def test_promtool_has_no_complaint_about_a_page_of_real_shape() -> None:
    history = History()
    history.add(parse_vllm((FIXTURES / "vllm" / "vllm_0.32.prom").read_text(), NOW), "vllm")
    table = parse_table((FIXTURES / "npu_smi" / "b_910b.txt").read_text())
    history.add(table_samples(table, NOW), "npu_smi")
    text = (FIXTURES / "npu_exporter" / "two_devices.prom").read_text()
    history.add(parse_npu_exporter(text, NOW).samples, "npu_exporter")
    check(exporter(history).page())


@pytest.mark.debian("promtool")
def test_promtool_has_no_complaint_about_an_empty_page() -> None:
    page = exporter(History()).page()
    check(page)
    assert names(page) == OWN - {"trimtab_sample_age_seconds"}


def test_the_names_in_use_are_there() -> None:
    history = History()
    text = (FIXTURES / "npu_exporter" / "two_devices.prom").read_text()
    history.add(parse_npu_exporter(text, NOW + 1.0).samples, "npu_exporter")
    history.add(parse_vllm((FIXTURES / "vllm" / "vllm_0.11.prom").read_text(), NOW), "vllm")
    found = values(exporter(history).page())
    device = frozenset({("npu", "0"), ("chip", "0"), ("name", "910B3-Ascend-V1")})
    assert found["npu_mem_bandwidth", device] == pytest.approx(35.0)
    assert found["npu_sm_activity", device] == pytest.approx(78.0)
    assert found["vllm_pending_queries", frozenset({("engine", "1"), ("model", "mid-32b")})] == 4.0


def test_trimtab_speaks_of_itself() -> None:
    found = values(exporter(one_of_each()).page())
    assert found["trimtab_build_info", frozenset({("version", "1.2.3")})] == 1.0
    modes = {
        mode: found["trimtab_mode", frozenset({("mode", mode)})] for mode in ("observe", "advise", "act")
    }
    assert modes == {"observe": 0.0, "advise": 1.0, "act": 0.0}
    assert found["trimtab_campaign_active", frozenset()] == 1.0
    assert found["trimtab_switches_total", frozenset()] == 7.0
    assert found["trimtab_restart_active", frozenset()] == 1.0
    assert found["trimtab_restart_time_seconds", frozenset()] == NOW - 1.5
    assert found["trimtab_history_series", frozenset()] == len(METRICS) - len(OWN)
    with pytest.raises(ValueError, match="one of observe, advise, act, got 'auto'"):
        SelfState("1", "auto")


def test_a_vanished_device_leaves_the_page_and_the_others_stay() -> None:
    history = History()
    two = (FIXTURES / "npu_smi" / "b_910b.txt").read_text()
    history.add(table_samples(parse_table(two), NOW), "npu_smi")
    assert b'npu="5"' in exporter(history).page()
    lines = two.splitlines(keepends=True)
    one = "".join(line for number, line in enumerate(lines) if number not in (9, 10, 11))
    history.add(table_samples(parse_table(one), NOW + 10), "npu_smi")
    page = exporter(history, NOW + 10).page()
    assert b'npu="5"' not in page
    assert b'npu_power_watts{chip="0",name="910B4-1",npu="0"} 131.2' in page


def test_a_source_that_fails_is_absent_not_zero_and_its_age_grows() -> None:
    class Failing:
        name = "npu_smi"
        interval_seconds = 1.0
        failing = False

        async def collect(self, now: float) -> list[Sample]:
            if self.failing:
                raise CollectorError("gone")
            return [Sample("npu_power_watts", 100.0, now, labels(npu="0", chip="0"))]

    history, source = History(), Failing()
    runner = Runner([source], history)
    asyncio.run(runner.once(NOW))
    source.failing = True
    asyncio.run(runner.once(NOW + 30))
    page = exporter(history, NOW + 31).page()
    assert "npu_power_watts" not in names(page)
    found = values(page)
    own = frozenset({("collector", "npu_smi")})
    assert found["trimtab_collector_success", own] == 0.0
    assert found["trimtab_sample_age_seconds", own] == 31.0
    assert ("trimtab_collector_duration_seconds", own) in found


def test_a_source_nobody_reads_any_more_goes_stale() -> None:
    page = exporter(one_of_each(), NOW + 3600).page()
    assert names(page) == OWN
    assert values(page)["trimtab_sample_age_seconds", frozenset({("collector", "vllm")})] == 3602.5


def test_a_histogram_without_an_open_bucket_gets_one() -> None:
    history = History()
    history.add([Sample("trimtab_engine_ttft_seconds", Distribution((0.5,), (2.0,), 1.5, 3.0), NOW)])
    found = values(exporter(history).page())
    assert found["trimtab_engine_ttft_seconds_bucket", frozenset({("le", "+Inf")})] == 3.0
    assert found["trimtab_engine_ttft_seconds_bucket", frozenset({("le", "0.5")})] == 2.0
    assert found["trimtab_engine_ttft_seconds_sum", frozenset()] == 1.5
    assert found["trimtab_engine_ttft_seconds_count", frozenset()] == 3.0


def test_labels_are_escaped() -> None:
    history = History()
    name = 'a"b\\c\nd'
    history.add([Sample("npu_process_memory_bytes", 1.0, NOW, labels(npu="0", process=name))])
    found = values(exporter(history).page())
    assert ("npu_process_memory_bytes", frozenset({("npu", "0"), ("process", name)})) in found


def test_the_page_is_served_and_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def watched(samples: list[Sample]) -> bytes:
        threads.append(threading.get_ident())
        return render(samples)

    monkeypatch.setattr("daemon.web_server.render", watched)
    history, app = one_of_each(), FastAPI()
    add_metrics(app, exporter(history))

    async def scenario() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://trimtab") as client:
            return await client.get("/metrics")

    answer = asyncio.run(scenario())
    assert answer.content == exporter(history).page()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert threads != [threading.get_ident()]
