"""What a model needs of each card, by its folder: the size of its weights and the KV cache of one longest request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from change.restart.memory import MemoryPlan
from change.server import LaunchCommand, Settings

DEFAULT_SHARE = 0.9
"""Of `--gpu-memory-utilization` before 0.20.2; later 0.92, which is no stricter here."""
_WEIGHTS = ("*.safetensors", "*.bin")
_KV_BYTES = {"fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1}
_TWO_BYTES = 2
_LARGEST_CONFIG_BYTES = 4 * 1024 * 1024


def memory_plan(command: LaunchCommand, settings: Settings) -> MemoryPlan:
    """The plan of a start with these settings; what its model's folder does not tell is None."""
    share = _number(settings, "gpu_memory_utilization") or DEFAULT_SHARE
    folder = model_folder(command.argv)
    if folder is None:
        return MemoryPlan(share)
    tensor = int(_number(settings, "tensor_parallel_size") or 1)
    stages = int(_number(settings, "pipeline_parallel_size") or 1)
    size, config = _weights(folder), _config(folder)
    # Experts are shared by the data-parallel copies too, expert-parallel or not; what each copy has for itself beside
    # them is not told apart, so that this is the least there can be.
    copies = int(_number(settings, "data_parallel_size") or 1) if _may_have_experts(config) else 1
    weights = None if size is None else size // (tensor * stages * copies)
    return MemoryPlan(share, weights, _kv_bytes(config, settings, tensor, stages))


def model_folder(argv: Sequence[str]) -> Path | None:
    """The model's folder, if the command names one that is here."""
    named: str | None = None
    for place, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        if flag in ("--model", "--model-path"):
            named = value if equals else next(iter(argv[place + 1 : place + 2]), None)
        elif word == "serve" and named is None and place + 1 < len(argv):
            following = argv[place + 1]
            named = None if following.startswith("-") else following
    if named is None:
        return None
    folder = Path(named)
    return folder if folder.is_dir() else None


def _weights(folder: Path) -> int | None:
    for pattern in _WEIGHTS:
        try:
            sizes = [path.stat().st_size for path in folder.glob(pattern)]
        except OSError:
            return None
        if sizes:
            return sum(sizes)
    return None


def _may_have_experts(config: Mapping[str, Any] | None) -> bool:
    return config is None or any("experts" in name and _count(config, name) for name in config)


def _kv_bytes(config: Mapping[str, Any] | None, settings: Settings, tensor: int, stages: int) -> int | None:
    """KV cache of one request of the longest length, on one card; None for a layout that is not plain attention."""
    if config is None or "kv_lora_rank" in config:
        return None  # a compressed cache, whose size another formula gives
    heads, layers = _count(config, "num_attention_heads"), _count(config, "num_hidden_layers")
    hidden, kv_heads = _count(config, "hidden_size"), _count(config, "num_key_value_heads") or heads
    length = _number(settings, "max_model_len") or _count(config, "max_position_embeddings")
    if heads is None or layers is None or hidden is None or kv_heads is None or length is None:
        return None
    size = _count(config, "head_dim") or hidden // heads
    each = _KV_BYTES.get(str(settings.get("kv_cache_dtype", "auto")), _TWO_BYTES)
    here = max(1, kv_heads // tensor) * -(-layers // stages)
    return int(2 * here * size * each * length)


def _config(folder: Path) -> Mapping[str, Any] | None:
    path = folder / "config.json"
    try:
        if path.stat().st_size > _LARGEST_CONFIG_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    text = found.get("text_config", found) if isinstance(found, dict) else None
    return text if isinstance(text, dict) else None


def _count(config: Mapping[str, Any], name: str) -> int | None:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _number(settings: Settings, name: str) -> float | None:
    value = settings.get(name)
    return None if value is None or isinstance(value, str | bool) else value
