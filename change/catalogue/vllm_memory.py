"""vLLM's knobs of memory, cache and precision."""

from __future__ import annotations

from types import MappingProxyType

from change.catalogue.domain import Choices, Json, Numbers, Switch, Words
from change.catalogue.knob import CacheLabel, Flag, JsonKey, Knob, Platform, ServerInfo, StartLog, Successor

_ASCEND: frozenset[Platform] = frozenset({"ascend"})
_CUDA_OR_CPU: frozenset[Platform] = frozenset({"cuda", "cpu"})
_NOT_THE_SAME = "a prefix cache in host memory that frees no device memory, so not the same thing"


def _cache(key: str) -> ServerInfo:
    return ServerInfo(("vllm_config", "cache_config", key))


def _model(key: str) -> ServerInfo:
    return ServerInfo(("vllm_config", "model_config", key))


KNOBS = (
    Knob(
        name="block_size",
        domain=Numbers(least=1, most=4096, tried=(16, 32, 64, 128, 256)),
        unit="tokens",
        places=(Flag("--block-size"),),
        reads=(CacheLabel("block_size"), _cache("block_size")),
        search="free",
        help="Tokens in one KV block. On Ascend forced to 128 under prefix caching or chunked prefill, both on "
        "by default; hybrid models want multiples of 128 and fail at start with 16.",
    ),
    Knob(
        name="gpu_memory_utilization",
        domain=Numbers(least=0.05, most=1.0, low=0.8, high=0.95, integer=False),
        unit="share of device memory",
        places=(
            Flag("--gpu-memory-utilization", until="0.32.0"),
            Flag("--gpu-memory-utilization", ("--device-memory-utilization",), since="0.32.0"),
        ),
        reads=(CacheLabel("gpu_memory_utilization"), _cache("gpu_memory_utilization")),
        search="free",
        help="Share of device memory for weights, activations and KV. Default 0.9, and 0.92 since 0.20.2.",
    ),
    Knob(
        name="kv_cache_memory_bytes",
        domain=Numbers(least=1, most=2**50),
        unit="bytes",
        places=(Flag("--kv-cache-memory-bytes", since="0.10.2"),),
        reads=(CacheLabel("kv_cache_memory_bytes"), _cache("kv_cache_memory_bytes")),
        help="Device memory for KV as a number of bytes, in place of gpu_memory_utilization.",
    ),
    Knob(
        name="num_gpu_blocks_override",
        domain=Numbers(least=1, most=2**31),
        unit="blocks",
        places=(Flag("--num-gpu-blocks-override"),),
        reads=(CacheLabel("num_gpu_blocks_override"), _cache("num_gpu_blocks_override")),
        help="Number of KV blocks in place of what memory holds; for tests.",
    ),
    Knob(
        name="max_model_len",
        domain=Numbers(least=1, most=100_000_000),
        unit="tokens",
        places=(Flag("--max-model-len"),),
        reads=(
            _model("max_model_len"),
            StartLog(r"Using max model len (\d+)"),
            StartLog(r"\bmax_seq_len=(\d+)"),
        ),
        help="Tokens of a request, prompt and answer together. Longer requests are refused, so it is the operator's to "
        "set.",
    ),
    Knob(
        name="swap_space",
        domain=Numbers(least=0, most=4096, integer=False),
        unit="GiB",
        places=(Flag("--swap-space", until="0.18.0"),),
        reads=(CacheLabel("swap_space"),),
        successors=(
            Successor(
                _CUDA_OR_CPU,
                "kv_offloading_size",
                f"--kv-offloading-size GiB with --kv-offloading-backend: {_NOT_THE_SAME}",
            ),
            Successor(
                _ASCEND,
                "npu_kv_offload_bytes",
                "--kv-transfer-config with OffloadingConnector and NPUOffloadingSpec (cpu_bytes_to_use): "
                f"{_NOT_THE_SAME}",
            ),
        ),
        help="Host memory for swapped-out KV; V1 engines only used it in a check of memory. Gone in 0.18: the engine "
        "then exits with code 2. Its successors are prefix caches in host memory and not the same thing.",
    ),
    Knob(
        name="kv_offloading_size",
        domain=Numbers(least=0.01, most=16384, integer=False, zero_is_off=True),
        unit="GiB",
        places=(Flag("--kv-offloading-size", since="0.11.2"),),
        reads=(CacheLabel("kv_offloading_size"), _cache("kv_offloading_size")),
        platforms=_CUDA_OR_CPU,
        search="by_name",
        unset=0.0,
        help="Prefix cache in host memory, over all ranks, with kv_offloading_backend. It frees no device memory.",
    ),
    Knob(
        name="kv_offloading_backend",
        domain=Choices(("native", "lmcache"), others=True),
        places=(Flag("--kv-offloading-backend", since="0.11.2"),),
        reads=(CacheLabel("kv_offloading_backend"), _cache("kv_offloading_backend")),
        platforms=_CUDA_OR_CPU,
        help="What keeps the KV of kv_offloading_size.",
    ),
    Knob(
        name="npu_kv_offload_bytes",
        domain=Numbers(least=1, most=2**50, zero_is_off=True),
        unit="bytes",
        places=(
            JsonKey(
                "--kv-transfer-config",
                ("kv_connector_extra_config", "cpu_bytes_to_use"),
                MappingProxyType(
                    {
                        ("kv_connector",): "OffloadingConnector",
                        ("kv_role",): "kv_both",
                        ("kv_connector_extra_config", "spec_name"): "NPUOffloadingSpec",
                        ("kv_connector_extra_config", "spec_module_path"): "vllm_ascend.kv_offload.npu",
                    }
                ),
                since="0.11.2",
            ),
        ),
        reads=(
            ServerInfo(
                ("vllm_config", "kv_transfer_config", "kv_connector_extra_config", "cpu_bytes_to_use")
            ),
        ),
        platforms=_ASCEND,
        search="by_name",
        help="Prefix cache in host memory on Ascend. It frees no device memory.",
    ),
    Knob(
        name="kv_transfer_config",
        domain=Json(),
        places=(Flag("--kv-transfer-config", since="0.6.6"),),
        help="The connector that moves KV between engines or to other memory, as one JSON object.",
    ),
    Knob(
        name="cpu_offload_gb",
        domain=Numbers(least=0, most=16384, integer=False),
        unit="GiB per device",
        places=(Flag("--cpu-offload-gb"),),
        reads=(
            CacheLabel("cpu_offload_gb"),
            ServerInfo(("vllm_config", "offload_config", "uva", "cpu_offload_gb")),
        ),
        platforms=frozenset({"cuda"}),
        help="Weights kept in host memory and read through the bus at every step: slow.",
    ),
    Knob(
        name="enable_prefix_caching",
        domain=Switch(),
        places=(
            Flag("--enable-prefix-caching", until="0.8.5"),
            Flag("--enable-prefix-caching", off="--no-enable-prefix-caching", since="0.8.5"),
        ),
        reads=(
            CacheLabel("enable_prefix_caching"),
            _cache("enable_prefix_caching"),
            StartLog(r"\benable_prefix_caching=(True|False)"),
        ),
        search="free",
        help="Reuse the KV of shared prompt beginnings.",
    ),
    Knob(
        name="prefix_caching_hash_algo",
        domain=Choices(("sha256", "sha256_cbor", "xxhash"), others=True),
        places=(Flag("--prefix-caching-hash-algo", since="0.8.5"),),
        reads=(CacheLabel("prefix_caching_hash_algo"), _cache("prefix_caching_hash_algo")),
        help="How blocks are told apart. A weak hash lets one tenant's prompt collide with another's, so it is "
        "the operator's to set.",
    ),
    Knob(
        name="kv_cache_dtype",
        domain=Choices(("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "int8"), others=True),
        places=(Flag("--kv-cache-dtype"),),
        reads=(
            CacheLabel("cache_dtype"),
            _cache("cache_dtype"),
            StartLog(r"\bkv_cache_dtype=([\w.]+)"),
        ),
        search="by_name",
        accuracy_gate=True,
        automatic="auto",
        help="Type of the KV cache. Changes answers: only behind an accuracy gate. FP8 does not exist on A2 and "
        "A3.",
    ),
    Knob(
        name="quantization",
        domain=Choices(("none", "ascend", "awq", "compressed-tensors", "gptq", "fp8"), others=True),
        places=(Flag("--quantization", ("-q",)),),
        reads=(
            _model("quantization"),
            StartLog(r"\bquantization=([\w.-]+)"),
        ),
        search="by_name",
        accuracy_gate=True,
        unset="none",
        automatic="none",
        help="How the weights are quantised; none is what the model's own files say. On Ascend `ascend` (W8A8, W4A8), "
        "AWQ by version; FP8 does not exist on A2 and A3. Only behind an accuracy gate.",
    ),
    Knob(
        name="dtype",
        domain=Choices(("auto", "bfloat16", "float16", "float32"), others=True),
        places=(Flag("--dtype"),),
        reads=(_model("dtype"), StartLog(r"\bdtype=torch\.(\w+)")),
        search="by_name",
        accuracy_gate=True,
        automatic="auto",
        help="Type of weights and activations. Changes answers: only behind an accuracy gate.",
    ),
    Knob(
        name="enforce_eager",
        domain=Switch(),
        places=(
            Flag("--enforce-eager", until="0.8.5"),
            Flag("--enforce-eager", off="--no-enforce-eager", since="0.8.5"),
        ),
        reads=(_model("enforce_eager"), StartLog(r"\benforce_eager=(True|False)")),
        search="by_name",
        help="No captured graphs: a faster start, less memory, slower decoding.",
    ),
    Knob(
        name="cudagraph_capture_sizes",
        domain=Words(several=True),
        unit="sequences",
        places=(
            Flag("--cuda-graph-sizes", since="0.9.2", until="0.11.2"),
            Flag("--cudagraph-capture-sizes", ("--cuda-graph-sizes",), since="0.11.2", until="0.13.0"),
            Flag("--cudagraph-capture-sizes", since="0.13.0"),
        ),
        reads=(
            ServerInfo(("vllm_config", "compilation_config", "cudagraph_capture_sizes")),
            StartLog(r"'cudagraph_capture_sizes': \[([\d, ]+)\]"),
        ),
        help="Batch sizes for which graphs are captured at start; a batch above the largest runs without one.",
    ),
    Knob(
        name="max_cudagraph_capture_size",
        domain=Numbers(least=1, most=65536),
        unit="sequences",
        places=(Flag("--max-cudagraph-capture-size", since="0.11.2"),),
        reads=(
            ServerInfo(("vllm_config", "compilation_config", "max_cudagraph_capture_size")),
            StartLog(r"'max_cudagraph_capture_size': (\d+)"),
        ),
        search="by_name",
        help="Largest batch for which a graph is captured; each graph costs memory and start-up time.",
    ),
    Knob(
        name="optimization_level",
        domain=Numbers(least=0, most=3),
        places=(Flag("--optimization-level", since="0.12.0"),),
        search="by_name",
        help="From 0, a fast start, to 3; -O in front of the number is the same.",
    ),
    Knob(
        name="performance_mode",
        domain=Choices(("balanced", "interactivity", "throughput")),
        places=(Flag("--performance-mode", since="0.17.0"),),
        reads=(ServerInfo(("vllm_config", "performance_mode")),),
        search="by_name",
        help="A bundle of the engine's defaults, which differ by version: each is better set by itself.",
    ),
    Knob(
        name="attention_backend",
        domain=Words(),
        places=(Flag("--attention-backend", since="0.13.0"),),
        help="Which attention operators. The platform chooses; on Ascend there is one.",
    ),
    Knob(
        name="compilation_config",
        domain=Json(),
        places=(Flag("--compilation-config", ("-cc",), since="0.6.6"),),
        help="Compilation and graph capture as one JSON object.",
    ),
    Knob(
        name="additional_config",
        domain=Json(),
        places=(Flag("--additional-config", since="0.7.3"),),
        help="vllm-ascend's own options as one JSON object; each key is a knob of its own "
        "(additional_config.KEY).",
    ),
)
