"""One engine's server as a source: its page, what it is, and the label that tells it from the tuned one."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bench.vllm_page import vllm_page
from collectors.engines.engine import IDENTITY_SECONDS, EngineCollector, Server
from collectors.engines.launch import Launch
from collectors.sample import CollectorError, Sample
from tests.collectors.page_server import PageServer, page_server
from tests.prepare import ROOT

FIXTURES = ROOT / "tests" / "collectors" / "fixtures"
SGLANG = (FIXTURES / "sglang" / "sglang_0.5_prefill_dp2.prom").read_bytes()
MINDIE = (FIXTURES / "mindie" / "mindie_2.1.prom").read_bytes()
NOW = 1_700_000_000.0


def infos(samples: list[Sample]) -> list[dict[str, str]]:
    return [dict(sample.labels) for sample in samples if sample.name == "trimtab_engine_info"]


def collect(collector: EngineCollector, now: float = NOW) -> list[Sample]:
    return asyncio.run(collector.collect(now))


def test_the_kind_is_told_by_the_page_and_each_rank_has_its_identity() -> None:
    with page_server(PageServer(SGLANG)) as server:
        found = infos(collect(EngineCollector("a", Server(server.url))))
    assert found == [
        {"engine": rank, "model": "s-moe", "kind": "sglang", "role": "prefill"} for rank in ("0", "1")
    ]


def test_what_the_operator_says_counts_before_all_else() -> None:
    with page_server(PageServer(SGLANG)) as server:
        launch = Launch("sglang", "prefill")
        collector = EngineCollector("a", Server(server.url, role="decode"), launch=lambda: launch)
        assert {info["role"] for info in infos(collect(collector))} == {"decode"}


def test_the_command_line_counts_before_the_page() -> None:
    with page_server(PageServer(SGLANG)) as server:
        launch = Launch("sglang", "both", "a note")
        collector = EngineCollector("a", Server(server.url), launch=lambda: launch)
        assert {info["role"] for info in infos(collect(collector))} == {"both"}
        assert collector.notes == ("a note",)


def test_an_engine_of_another_name_carries_it_on_every_sample() -> None:
    with page_server(PageServer(vllm_page().encode())) as server:
        labelled = collect(EngineCollector("engine:b", Server(server.url, label="b")))
        plain = collect(EngineCollector("vllm", Server(server.url)))
    assert {dict(sample.labels)["server"] for sample in labelled} == {"b"}
    assert not [sample for sample in plain if "server" in dict(sample.labels)]
    assert len(labelled) == len(plain)
    assert all(list(sample.labels) == sorted(sample.labels) for sample in labelled)


def test_the_page_may_be_somewhere_else() -> None:
    with page_server(PageServer(MINDIE)) as server:
        where = Server("http://api.invalid", metrics_url=f"{server.url}/metrics", api_key="k", kind="mindie")
        assert infos(collect(EngineCollector("mindie", where)))[0]["kind"] == "mindie"
    assert "authorization" not in server.asked[0][1], "the key is for the other host"


def test_a_page_on_another_port_of_the_host_gets_the_key() -> None:
    with page_server(PageServer(MINDIE)) as server:
        where = Server("http://127.0.0.1:1", metrics_url=f"{server.url}/metrics", api_key="k")
        collect(EngineCollector("mindie", where))
    assert server.asked[0][1]["authorization"] == "Bearer k"


def test_an_engine_is_asked_what_it_is_now_and_then_and_after_it_was_away() -> None:
    with page_server(PageServer(vllm_page().encode())) as server:
        collector = EngineCollector("vllm", Server(server.url))

        def asked(now: float) -> list[str]:
            before = len(server.asked)
            collect(collector, now)
            return [path for path, _ in server.asked[before:]]

        assert asked(NOW) == ["/metrics", "/version", "/server_info"]
        assert asked(NOW + 1) == ["/metrics"]
        assert asked(NOW + IDENTITY_SECONDS) == ["/metrics", "/version", "/server_info"]
        page, server.page = server.page, b"cut"
        with pytest.raises(CollectorError):
            collect(collector, NOW + 61)
        server.page = page
        assert asked(NOW + 62) == ["/metrics", "/version", "/server_info"]


def test_a_headless_node_is_known_and_not_scraped() -> None:
    looked: list[int] = []

    def launch() -> Launch:
        looked.append(1)
        return Launch("vllm", "headless")

    with page_server(PageServer(b"")) as server:
        collector = EngineCollector("vllm", Server(server.url), launch=launch)
        samples = collect(collector)
        collect(collector, NOW + 1)
    assert [(s.name, dict(s.labels)) for s in samples] == [
        ("trimtab_engine_info", {"kind": "vllm", "role": "headless"})
    ]
    assert server.asked == [] and looked == [1]
    assert "--headless" in collector.notes[0]


def test_a_route_that_is_not_there_says_how_to_turn_metrics_on() -> None:
    with page_server(PageServer(b"", status=404)) as server:
        with pytest.raises(CollectorError, match=r"HTTP 404.*--enable-metrics"):
            collect(EngineCollector("sglang", Server(server.url, kind="sglang")))
        with pytest.raises(CollectorError, match=r"--enable-metrics.*MIES_SERVICE_MONITOR_MODE"):
            collect(EngineCollector("vllm", Server(server.url)))


@pytest.mark.parametrize("page", [b"vllm:num_requests_running \xff 1\n", b"\xff\xfe"])
def test_a_page_that_is_no_text_is_refused(page: bytes) -> None:
    with page_server(PageServer(page)) as server, pytest.raises(CollectorError, match="not UTF-8"):
        collect(EngineCollector("vllm", Server(server.url)))


@pytest.mark.parametrize("page", [SGLANG, MINDIE])
def test_a_cut_page_is_refused_with_its_address(page: bytes) -> None:
    with (
        page_server(PageServer(page[: len(page) // 2 + 7])) as server,
        pytest.raises(CollectorError, match=f"{server.url}/metrics: .*cut off"),
    ):
        collect(EngineCollector("vllm", Server(server.url)))


def test_a_page_that_hangs_is_given_up() -> None:
    with page_server(PageServer(SGLANG, hold=threading.Event())) as server:
        collector = EngineCollector("vllm", Server(server.url), timeout_seconds=0.05)
        with pytest.raises(CollectorError, match="no whole page within"):
            collect(collector)


def test_a_page_without_end_is_given_up() -> None:
    with page_server(PageServer(b"# " + b"x" * 5_000_000)) as server:
        collector = EngineCollector("vllm", Server(server.url), max_bytes=1_000_000)
        with pytest.raises(CollectorError, match="larger than 1000000 bytes"):
            collect(collector)
