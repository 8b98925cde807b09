"""The memory plan out of a model's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from change.server import LaunchCommand
from daemon.engine.model_memory import memory_plan, model_folder

CONFIG = {
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 40,
    "hidden_size": 4096,
    "max_position_embeddings": 4096,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for number in range(2):
        with (tmp_path / f"model-{number}.safetensors").open("wb") as file:
            file.truncate(8_000_000)
    return tmp_path


def plan(model: Path, **settings: Any) -> Any:
    return memory_plan(LaunchCommand(("vllm", "serve", str(model), "--port", "8000")), settings)


def test_weights_and_cache_are_shared_by_the_cards(model: Path) -> None:
    one = plan(model)
    assert one.weights_bytes == 16_000_000
    assert one.kv_bytes == 2 * 8 * 40 * 128 * 2 * 4096
    four = plan(model, tensor_parallel_size=2, pipeline_parallel_size=2)
    assert (four.weights_bytes, four.kv_bytes) == (one.weights_bytes // 4, one.kv_bytes // 4)


@pytest.mark.parametrize("config", [{**CONFIG, "n_routed_experts": 256}, {**CONFIG, "num_experts": 8}, None])
def test_experts_are_shared_by_the_data_parallel_copies_too(model: Path, config: Any) -> None:
    (model / "config.json").write_text("" if config is None else json.dumps(config))
    assert plan(model, tensor_parallel_size=4, data_parallel_size=4).weights_bytes == 1_000_000
    assert plan(model, tensor_parallel_size=4).weights_bytes == 4_000_000


def test_a_model_without_experts_is_there_in_each_copy(model: Path) -> None:
    assert plan(model, tensor_parallel_size=4, data_parallel_size=4).weights_bytes == 4_000_000


def test_settings_that_change_it(model: Path) -> None:
    whole = plan(model).kv_bytes
    assert plan(model, kv_cache_dtype="fp8").kv_bytes == whole // 2
    assert plan(model, max_model_len=2048).kv_bytes == whole // 2
    assert plan(model, gpu_memory_utilization=0.8).share == 0.8


@pytest.mark.parametrize(
    "argv",
    [
        ("vllm", "serve", "{}"),
        ("python", "-m", "x", "--model", "{}"),
        ("x", "--model={}"),
        ("x", "--model-path", "{}"),
    ],
)
def test_the_model_is_found_however_it_is_named(model: Path, argv: tuple[str, ...]) -> None:
    assert model_folder([word.format(model) for word in argv]) == model


@pytest.mark.parametrize(
    "argv", [("vllm", "serve", "Qwen/Qwen3-32B"), ("vllm", "serve", "--port"), ("x", "--model"), ()]
)
def test_a_model_that_is_not_here_is_unknown(argv: tuple[str, ...]) -> None:
    found = memory_plan(LaunchCommand(argv), {})
    assert (found.weights_bytes, found.kv_bytes) == (None, None)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"num_hidden_layers": "x"}', "[" * 100000])
def test_a_config_that_cannot_be_read_leaves_the_cache_unknown(model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    assert plan(model).kv_bytes is None
    assert plan(model).weights_bytes == 16_000_000


def test_a_compressed_cache_has_another_formula(model: Path) -> None:
    (model / "config.json").write_text(json.dumps(CONFIG | {"kv_lora_rank": 512}))
    assert plan(model).kv_bytes is None
