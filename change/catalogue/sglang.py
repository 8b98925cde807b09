"""SGLang's knobs. Its hot lane is not built: all of them need a restart here.

Two can be changed in a running server by SGLang's own means: pp_max_micro_batch_size by POST /set_internal_state,
chunked_prefill_size and max_prefill_tokens by a plugin of sglang.srt.plugins from 0.5.15 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from change.catalogue.domain import Choices, Domain, Numbers, Switch
from change.catalogue.knob import Flag, Knob, ServerInfo, StartLog


def _knob(
    name: str,
    domain: Domain,
    help: str,
    search: Literal["free", "by_name", "never"] = "never",
    *,
    unit: str = "",
    flag: str | None = None,
    others: Sequence[str] = (),
    key: str | None = None,
    log: str | None = None,
    accuracy_gate: bool = False,
) -> Knob:
    """A knob whose flag and /server_info key are its name, unless given; `log` is its name in the start-up line."""
    spelling = flag or "--" + name.replace("_", "-")
    reads: tuple[ServerInfo | StartLog, ...] = (ServerInfo((key or spelling[2:].replace("-", "_"),)),)
    if log is not None:
        reads = (*reads, StartLog(rf"\bmax_total_num_tokens=.*\b{log}=(\d+)"))
    return Knob(
        name=name,
        engine="sglang",
        domain=domain,
        unit=unit,
        places=(Flag(spelling, tuple(others)),),
        reads=reads,
        search=search,
        accuracy_gate=accuracy_gate,
        help=help,
    )


def _tokens(low: float, high: float) -> Numbers:
    return Numbers(least=1, most=1_048_576, low=low, high=high, log=True)


KNOBS = (
    _knob(
        "pp_max_micro_batch_size",
        Numbers(least=1, most=65536, low=8, high=2048, log=True),
        "Running requests per pipeline stage; at most max_running_requests / stages. SGLang can change it in the "
        "running server (POST /set_internal_state), Trimtab does not yet.",
        "free",
        unit="requests",
        others=("--max-micro-batch-size",),
    ),
    _knob(
        "chunked_prefill_size",
        Numbers(least=-1, most=1_048_576, low=256, high=16384, log=True),
        "Prompt tokens of one chunk; -1 is no chunks. Reachable inside the server by a plugin from 0.5.15 on.",
        "free",
        unit="tokens",
        log="chunked_prefill_size",
    ),
    _knob(
        "max_prefill_tokens",
        _tokens(512, 65536),
        "Prompt tokens of one prefill batch. Reachable inside the server by a plugin from 0.5.15 on.",
        "free",
        unit="tokens",
        log="max_prefill_tokens",
    ),
    _knob(
        "max_running_requests",
        Numbers(least=1, most=65536, low=8, high=2048, log=True),
        "Requests that may run at once.",
        "free",
        unit="requests",
        log="max_running_requests",
    ),
    _knob(
        "max_queued_requests",
        Numbers(least=1, most=1_000_000),
        "Requests that may wait; beyond it the server answers 503. A limit of the operator's.",
        unit="requests",
    ),
    _knob(
        "page_size",
        Numbers(least=1, most=4096, tried=(1, 16, 64, 128)),
        "Tokens in one KV page; 128 on Ascend.",
        "free",
        unit="tokens",
    ),
    _knob(
        "mem_fraction_static",
        Numbers(least=0.05, most=0.99, low=0.7, high=0.92, integer=False),
        "Share of device memory for weights and KV; the rest is for activations and graphs.",
        "free",
        unit="share of device memory",
    ),
    _knob(
        "max_total_tokens",
        Numbers(least=1, most=10**10),
        "Tokens that the KV pool holds in place of what memory holds; for tests.",
        unit="tokens",
    ),
    _knob(
        "max_model_len",
        Numbers(least=1, most=100_000_000),
        "Tokens of a request, prompt and answer together.",
        unit="tokens",
        flag="--context-length",
        log="context_len",
    ),
    _knob(
        "schedule_policy",
        Choices(("fcfs", "lpm", "lof", "dfs-weight", "random", "priority", "routing-key"), others=True),
        "Which waiting request comes next; lpm is the longest cached prefix.",
        "free",
    ),
    _knob(
        "schedule_conservativeness",
        Numbers(least=0.01, most=10, low=0.3, high=1.3, integer=False),
        "More admits fewer requests; raise it if requests are retracted often.",
        "free",
    ),
    _knob("disable_radix_cache", Switch(), "Do not reuse the KV of shared prompt beginnings.", "free"),
    _knob("enable_mixed_chunk", Switch(), "Put prompt chunks and decoding into one batch.", "free"),
    _knob(
        "disable_overlap_schedule",
        Switch(),
        "Do not schedule the next step while the device works on this one.",
        "free",
    ),
    _knob(
        "num_continuous_decode_steps",
        Numbers(least=1, most=64, tried=(1, 2, 4, 8)),
        "Decoding steps between two looks at the queue: fewer switches, later first tokens.",
        "free",
        unit="steps",
    ),
    _knob(
        "stream_interval",
        Numbers(least=1, most=1024),
        "Tokens that are sent together. Changes what users see.",
        unit="tokens",
    ),
    _knob("disable_cuda_graph", Switch(), "No captured graphs (ACL graphs on Ascend).", "by_name"),
    _knob(
        "cuda_graph_max_bs",
        Numbers(least=1, most=4096),
        "Largest batch for which a graph is captured.",
        "by_name",
        unit="requests",
        others=("--cuda-graph-max-bs-decode",),
    ),
    _knob(
        "tokenizer_worker_num",
        Numbers(least=1, most=64, tried=(1, 2, 4)),
        "Tokenizer processes.",
        "free",
        unit="processes",
    ),
    _knob(
        "enable_hierarchical_cache",
        Switch(),
        "Prefix cache in host memory too; frees no device memory.",
        "by_name",
    ),
    _knob(
        "hicache_ratio",
        Numbers(least=1.0, most=64, integer=False),
        "Size of the cache in host memory over that in device memory.",
        "by_name",
        unit="ratio",
    ),
    _knob(
        "hicache_size",
        Numbers(least=0, most=16384),
        "Size of the cache in host memory of each rank, in place of the ratio.",
        "by_name",
        unit="GB",
    ),
    _knob(
        "tensor_parallel_size",
        Numbers(least=1, most=1024, tried=(1, 2, 4, 8, 16)),
        "Devices that share each layer.",
        "by_name",
        unit="devices",
        flag="--tp-size",
        others=("--tensor-parallel-size", "--tp"),
    ),
    _knob(
        "pipeline_parallel_size",
        Numbers(least=1, most=256, tried=(1, 2, 4, 8)),
        "Devices that share the layers.",
        "by_name",
        unit="stages",
        flag="--pp-size",
        others=("--pipeline-parallel-size", "--pp"),
    ),
    _knob(
        "data_parallel_size",
        Numbers(least=1, most=1024, tried=(1, 2, 4, 8)),
        "Engine copies behind one server.",
        "by_name",
        unit="copies",
        flag="--dp-size",
        others=("--data-parallel-size", "--dp"),
    ),
    _knob(
        "expert_parallel_size",
        Numbers(least=1, most=1024),
        "Devices that share the experts; within the tensor-parallel group.",
        "by_name",
        unit="devices",
        flag="--ep-size",
        others=("--expert-parallel-size", "--ep"),
    ),
    _knob("enable_dp_attention", Switch(), "Attention data-parallel, experts tensor-parallel.", "by_name"),
    _knob(
        "attention_backend",
        Choices(("ascend", "triton", "flashinfer", "fa3", "torch_native"), others=True),
        "Which attention operators; on Ascend it is `ascend`.",
    ),
    _knob(
        "kv_cache_dtype",
        Choices(("auto", "bf16", "bfloat16", "fp8_e5m2", "fp8_e4m3"), others=True),
        "Type of the KV cache. Changes answers: only behind an accuracy gate. FP8 does not exist on A2 and A3.",
        "by_name",
        accuracy_gate=True,
    ),
    _knob(
        "quantization",
        Choices(("w8a8_int8", "modelslim", "awq", "gptq", "fp8", "compressed-tensors"), others=True),
        "How the weights are quantised. On Ascend modelslim (0.5.6+) or w8a8_int8; FP8 does not exist on A2 and A3. "
        "Only behind an accuracy gate.",
        "by_name",
        accuracy_gate=True,
    ),
)
