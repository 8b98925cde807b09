"""Settings that can never start are named before anything is stopped; what is unknown forbids nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.catalogue.index import knobs_of
from change.facts import Facts, family
from change.gates import problems
from change.installed.engine import Argument, InstalledEngine
from change.server import Settings

A2 = Facts("vllm", "0.23.0", "ascend", "910B4", cards=4)
A5 = replace(A2, chip="Ascend950")
CPU = Facts("vllm", "0.32.0", "cpu")
SGLANG = Facts("sglang", "0.5.15", "ascend", "910B4", cards=4)
UNKNOWN = Facts("vllm")


def installed(*spellings: str, version: str = "0.32.0", **more: Any) -> InstalledEngine:
    return InstalledEngine(
        "vllm", "/packages/vllm", version, tuple(Argument((each,)) for each in spellings), **more
    )


@pytest.mark.parametrize(
    ("chip", "generation"),
    [
        ("910B4", "A2"),
        ("Ascend 910B2C", "A2"),
        ("910B", "A1"),
        ("910A", "A1"),
        ("Ascend910_9392", "A3"),
        ("910C", "A3"),
        ("310P3", "310P"),
        ("310B4", "310"),
        ("950", "A5"),
        ("H100", None),
    ],
)
def test_chips_are_told_by_their_names(chip: str, generation: str | None) -> None:
    assert family(chip) == generation


@pytest.mark.parametrize(
    ("facts", "settings", "around", "complaint"),
    [
        (A2, {"quantization": "fp8"}, {}, "quantization fp8: there is no FP8 on 910B4 (A2)"),
        (A2, {"kv_cache_dtype": "fp8_e4m3"}, {}, "there is no FP8 on 910B4"),
        (SGLANG, {"kv_cache_dtype": "fp8_e5m2"}, {}, "there is no FP8 on 910B4"),
        (replace(A2, version="0.18.0"), {"quantization": "awq"}, {}, "vllm-ascend 0.18.0 registers no AWQ"),
        (A2, {"block_size": 16}, {}, "wants multiples of 128"),
        (A2, {"block_size": 64}, {"enable_prefix_caching": False}, "wants multiples of 128"),
        (
            A2,
            {"enable_prefix_caching": True},
            {"block_size": 64, "enable_chunked_prefill": False},
            "multiples of 128",
        ),
        (SGLANG, {"page_size": 64}, {}, "wants 128"),
        (
            A2,
            {"tensor_parallel_size": 4},
            {"pipeline_parallel_size": 2},
            "tensor_parallel_size 4 x pipeline_parallel_size 2 needs 8 devices, and there are 4",
        ),
        (replace(A2, cards=8), {"data_parallel_size": 2}, {"tensor_parallel_size": 8}, "needs 16 devices"),
        (
            CPU,
            {"enable_chunked_prefill": False},
            {"batch_max_tokens": 2048, "max_model_len": 4096},
            "a whole prompt",
        ),
        (CPU, {"max_num_seqs": 512}, {"batch_max_tokens": 256}, "every running request needs a token"),
        (A2, {"omp_proc_bind": "true"}, {}, "OMP_PROC_BIND breaks the engine's CPU binding"),
        (A2, {"additional_config.enable_cpu_binding": True}, {"omp_proc_bind": "close"}, "OMP_PROC_BIND"),
        (
            A2,
            {"additional_config.enable_cpu_binding": True},
            {"cpu_affinity_conf": "1"},
            "both bind the engine's threads",
        ),
        (CPU, {"gpu_memory_utilization": 0.9}, {"kv_cache_memory_bytes": 1 << 30}, "has no effect"),
        (
            SGLANG,
            {"pp_max_micro_batch_size": 64},
            {"max_running_requests": 100, "pipeline_parallel_size": 2},
            "= 50",
        ),
        (A2, {"kv_offloading_size": 4.0}, {}, "does not exist on ascend: it is of cpu and cuda"),
        (CPU, {"npu_kv_offload_bytes": 4096}, {}, "does not exist on cpu"),
        (CPU, {"block_size": 0}, {}, "block_size is 0: expected at least 1"),
        (CPU, {"no_such": 0}, {}, "no_such is no knob of vllm"),
        (CPU, {"max_prefill_tokens": 64}, {}, "it is changed in the running engine"),
        (replace(CPU, version="0.23.0"), {"watermark": 0.1}, {}, "--watermark came with 0.24.0"),
        (Facts("mindie", "2.1"), {"block_size": 64}, {}, "the engine's own config.json"),
    ],
)
def test_are_said_in_words(facts: Facts, settings: Settings, around: Settings, complaint: str) -> None:
    assert complaint in "; ".join(problems(settings, facts, around=around))


@pytest.mark.parametrize(
    ("facts", "settings", "around"),
    [
        (A5, {"quantization": "fp8", "kv_cache_dtype": "fp8"}, {}),
        (replace(A2, version="0.30.0"), {"quantization": "awq"}, {}),
        (replace(A2, model_type="deepseek_v4"), {"block_size": 64}, {}),
        (A2, {"block_size": 640}, {}),
        (A2, {"block_size": 16}, {"enable_prefix_caching": False, "enable_chunked_prefill": False}),
        (replace(A2, version="0.9.1"), {"block_size": 16}, {}),
        (replace(CPU), {"block_size": 16}, {}),
        (A2, {"tensor_parallel_size": 4}, {"data_parallel_size": 1}),
        (SGLANG, {"enable_dp_attention": True}, {"tensor_parallel_size": 4, "data_parallel_size": 4}),
        (UNKNOWN, {"tensor_parallel_size": 512, "quantization": "fp8", "block_size": 16}, {}),
        (A2, {"omp_proc_bind": "true"}, {"additional_config.enable_cpu_binding": False}),
        (A2, {"hccl_buffsize": 512}, {"quantization": "fp8"}),
        (CPU, {}, {"batch_max_tokens": 1, "max_num_seqs": 9}),
    ],
)
def test_what_may_start_is_let_through(facts: Facts, settings: Settings, around: Settings) -> None:
    assert problems(settings, facts, around=around) == []


class TestVanished:
    @pytest.mark.parametrize(
        ("platform", "named", "not_named"),
        [
            ("cpu", "--kv-offloading-size", "NPUOffloadingSpec"),
            ("ascend", "NPUOffloadingSpec", "--kv-offloading-size"),
        ],
    )
    def test_swap_space_names_the_successor_of_the_platform(
        self, platform: str, named: str, not_named: str
    ) -> None:
        for facts in (
            Facts("vllm", "0.18.0", platform),  # type: ignore[arg-type]
            Facts("vllm", "0.17.1", platform, installed=installed("--block-size")),  # type: ignore[arg-type]
        ):
            (text,) = problems({"swap_space": 4}, facts)
            assert named in text and not_named not in text
            assert "nothing is put in its place unasked" in text and "not the same thing" in text

    def test_the_installed_engine_knows_better_than_its_version(self) -> None:
        facts = replace(CPU, installed=installed("--block-size"))
        assert problems({"block_size": 32}, facts) == []
        (text,) = problems({"async_scheduling": True}, facts)
        assert text.startswith(
            "async_scheduling: the installed vllm 0.32.0 in /packages/vllm has no --async-sched"
        )

    def test_so_does_it_know_the_words_it_takes(self) -> None:
        argument = Argument(("--kv-cache-dtype",), (), True, ("auto", "fp8"))
        facts = replace(CPU, installed=InstalledEngine("vllm", "/p", "0.28.0", (argument,)))
        assert problems({"kv_cache_dtype": "fp8"}, facts) == []
        (text,) = problems({"kv_cache_dtype": "int8"}, facts)
        assert text == "kv_cache_dtype int8: the installed vllm 0.28.0 takes one of auto, fp8"

    def test_ascends_options_are_held_against_its_source(self) -> None:
        there = installed("--additional-config", additional_keys=frozenset({"enable_kv_nz"}))
        facts = replace(A2, installed=there)
        assert problems({"additional_config.enable_kv_nz": True}, facts) == []
        (text,) = problems({"additional_config.weight_nz_mode": 1}, facts)
        assert "does not read weight_nz_mode" in text

    def test_so_are_its_quantisations(self) -> None:
        there = installed("--quantization", quantizations=frozenset({"ascend"}))
        assert "does not register it" in problems({"quantization": "awq"}, replace(A2, installed=there))[0]
        there = installed("--quantization", quantizations=frozenset({"awq"}))
        assert problems({"quantization": "awq"}, replace(A2, version="0.18.0", installed=there)) == []


@given(
    st.dictionaries(
        st.sampled_from([*knobs_of("vllm")]),
        st.integers() | st.floats() | st.text(max_size=5) | st.booleans(),
        max_size=5,
    ),
    st.sampled_from([A2, A5, CPU, UNKNOWN]),
)
def test_any_settings_are_judged_without_an_exception(settings: Settings, facts: Facts) -> None:
    assert all(isinstance(text, str) and text for text in problems(settings, facts, around=settings))
