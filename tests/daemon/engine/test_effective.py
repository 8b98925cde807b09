"""Settings in force, read from what an engine tells of itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.engine import EngineState
from daemon.engine.effective import EffectiveReader, Told, effective, read_server_info

PAGE = (
    "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n"
    "# TYPE vllm:cache_config_info gauge\n"
    'vllm:cache_config_info{block_size="128",cache_dtype="auto",enable_prefix_caching="False",engine="0",'
    'gpu_memory_utilization="0.9",kv_offloading_size="None",num_gpu_blocks="4096",'
    'prefix_caching_hash_algo="sha\\"256"} 1.0\n'
)
LOG = (
    "(APIServer pid=7) INFO 11-29 12:42:41 [model.py:2152] Using max model len 4096",
    "(APIServer pid=7) INFO 11-29 12:42:41 [scheduler.py:308] Chunked prefill is enabled with "
    "max_num_batched_tokens=2048.",
    "(EngineCore pid=8) INFO 11-29 12:42:48 [core.py:133] Initializing a V1 LLM engine (v0.28.0) with config: "
    "model='m', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=2, pipeline_parallel_size=1, "
    "data_parallel_size=1, disable_custom_all_reduce=True, quantization=None, enforce_eager=False, "
    "kv_cache_dtype=auto, enable_prefix_caching=True, enable_chunked_prefill=True, "
    "compilation_config={'cudagraph_capture_sizes': [1, 2, 4], 'max_cudagraph_capture_size': 4}",
)
STATE = EngineState(
    plugin="0.1.0",
    engine="vllm",
    engine_version="0.28.0",
    boot_id="b",
    epoch=0,
    values={"batch_max_tokens": 512, "long_prefill_tokens": 0, "watermark": 0.01},
    ceilings={"batch_max_tokens": 4096, "max_num_seqs": 64, "watermark": 0.5},
    floors={},
    lease_remaining_seconds=None,
    gate="open",
    dp_ranks=1,
    api_servers=1,
    scheduler="Scheduler",
    scheduler_known=True,
)


def test_the_metrics_page_tells_of_the_cache() -> None:
    assert effective(Told(page=PAGE), "vllm") == {
        "block_size": 128,
        "gpu_memory_utilization": 0.9,
        "kv_offloading_size": 0.0,
        "enable_prefix_caching": False,
        "prefix_caching_hash_algo": 'sha"256',
        "kv_cache_dtype": "auto",
    }


def test_engines_of_one_server_that_differ_make_a_setting_unknown() -> None:
    two = PAGE + PAGE.replace('engine="0"', 'engine="1"').replace('block_size="128"', 'block_size="64"')
    found = effective(Told(page=two), "vllm")
    assert "block_size" not in found
    assert found["kv_cache_dtype"] == "auto"


def test_the_start_up_log_tells_of_the_rest() -> None:
    found = effective(Told(log=LOG), "vllm")
    assert found == {
        "batch_max_tokens": 2048,
        "max_model_len": 4096,
        "dtype": "bfloat16",
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "disable_custom_all_reduce": True,
        "quantization": "none",
        "enforce_eager": False,
        "kv_cache_dtype": "auto",
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        "cudagraph_capture_sizes": "1 2 4",
        "max_cudagraph_capture_size": 4,
    }


def test_the_newest_start_in_the_log_counts() -> None:
    again = (*LOG, "INFO [model.py:1] Using max model len 8192")
    assert effective(Told(log=again), "vllm")["max_model_len"] == 8192


def test_the_plugins_ceilings_are_the_launch_values_of_the_hot_knobs() -> None:
    found = effective(Told(state=STATE, log=LOG), "vllm")
    assert (found["batch_max_tokens"], found["max_num_seqs"]) == (4096, 64)
    assert (found["watermark"], found["long_prefill_tokens"]) == (0.01, 0)


def test_hot_values_that_somebody_changed_are_no_launch_values() -> None:
    found = effective(Told(state=replace(STATE, epoch=3)), "vllm")
    assert found == {"batch_max_tokens": 4096, "max_num_seqs": 64}


def test_server_info_is_read_by_its_paths() -> None:
    info = {
        "vllm_config": {
            "scheduler_config": {"max_num_seqs": 32, "policy": "priority", "async_scheduling": None},
            "compilation_config": {"cudagraph_capture_sizes": [8, 16]},
            "model_config": {"dtype": "torch.float16"},
        },
        "vllm_env": {"VLLM_CPU_KVCACHE_SPACE": 1},
    }
    assert effective(Told(server_info=info), "vllm") == {
        "max_num_seqs": 32,
        "scheduling_policy": "priority",
        "cudagraph_capture_sizes": "8 16",
        "dtype": "float16",
        "cpu_kvcache_space": 1,
    }
    assert effective(Told(server_info={"vllm_config": "VllmConfig(...)"}), "vllm") == {}


def test_sglang_tells_in_its_log_and_server_info() -> None:
    line = (
        "[2026-01-01 10:00:00 TP0] max_total_num_tokens=71232, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len=32768, available_gpu_mem=3.10 GB"
    )
    found = effective(
        Told(log=(line,), server_info={"page_size": 128, "tp_size": 4, "context_length": None}), "sglang"
    )
    assert found == {
        "chunked_prefill_size": 8192,
        "max_prefill_tokens": 16384,
        "max_running_requests": 2048,
        "max_model_len": 32768,
        "page_size": 128,
        "tensor_parallel_size": 4,
    }


def test_of_what_nothing_was_heard_nothing_is_said() -> None:
    assert effective(Told(), "vllm") == {}
    assert effective(Told(), "mindie") == {}


@given(st.text(), st.lists(st.text()))
def test_any_text_is_read_without_an_exception(page: str, log: list[str]) -> None:
    effective(Told(page="vllm:cache_config_info{" + page + "} 1\n", log=tuple(log)), "vllm")


@given(st.text())
def test_any_answer_is_read_or_nothing(text: str) -> None:
    found = read_server_info(text)
    assert found is None or isinstance(found, dict)


class TestReader:
    def read(self, transport: httpx2.MockTransport) -> dict[str, object]:
        reader = EffectiveReader(
            "http://engine", headers={"Authorization": "Bearer k"}, tls=False, transport=transport
        )
        return dict(asyncio.run(reader.read("vllm", state=None, log=())))

    def test_asks_for_the_page_and_for_server_info(self) -> None:
        asked: list[tuple[str, str]] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            asked.append((request.url.path, request.headers["Authorization"]))
            if request.url.path == "/metrics":
                return httpx2.Response(200, text=PAGE)
            assert request.url.params["config_format"] == "json"
            return httpx2.Response(200, json={"vllm_config": {"scheduler_config": {"max_num_seqs": 8}}})

        found = self.read(httpx2.MockTransport(answer))
        assert (found["block_size"], found["max_num_seqs"]) == (128, 8)
        assert sorted(asked) == [("/metrics", "Bearer k"), ("/server_info", "Bearer k")]

    def test_a_closed_door_or_nobody_there_is_unknown(self) -> None:
        def answer(request: httpx2.Request) -> httpx2.Response:
            if request.url.path == "/metrics":
                raise httpx2.ConnectError("nobody")
            return httpx2.Response(404, text="Not Found")

        assert self.read(httpx2.MockTransport(answer)) == {}


@pytest.mark.parametrize("version", ["0.28.0", "0.32.0"])
def test_real_pages_and_logs_are_understood(corpus: Path, version: str) -> None:
    folder = corpus / "engines"
    log = next(folder.glob(f"vllm-cpu-{version}-*.log")).read_text()
    page = (folder / f"vllm-cpu-{version}.prom").read_text()
    found = effective(Told(page=page, log=tuple(log.splitlines())), "vllm")
    assert (found["block_size"], found["max_model_len"], found["enforce_eager"]) == (128, 2048, True)
    assert (found["kv_cache_dtype"], found["tensor_parallel_size"]) == ("auto", 1)
