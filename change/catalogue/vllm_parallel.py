"""vLLM's knobs of parallelism and of the processes around the engine."""

from __future__ import annotations

from change.catalogue.domain import Choices, Numbers, Switch
from change.catalogue.knob import Flag, Knob, ServerInfo, StartLog, Variable


def _parallel(key: str) -> ServerInfo:
    return ServerInfo(("vllm_config", "parallel_config", key))


KNOBS = (
    Knob(
        name="tensor_parallel_size",
        domain=Numbers(least=1, most=1024, tried=(1, 2, 4, 8, 16)),
        unit="devices",
        places=(Flag("--tensor-parallel-size", ("-tp",)),),
        reads=(_parallel("tensor_parallel_size"), StartLog(r"\btensor_parallel_size=(\d+)")),
        search="by_name",
        help="Devices that share each layer.",
    ),
    Knob(
        name="pipeline_parallel_size",
        domain=Numbers(least=1, most=256, tried=(1, 2, 4, 8)),
        unit="stages",
        places=(Flag("--pipeline-parallel-size", ("-pp",)),),
        reads=(_parallel("pipeline_parallel_size"), StartLog(r"\bpipeline_parallel_size=(\d+)")),
        search="by_name",
        help="Devices that share the layers.",
    ),
    Knob(
        name="data_parallel_size",
        domain=Numbers(least=1, most=1024, tried=(1, 2, 4, 8)),
        unit="copies",
        places=(Flag("--data-parallel-size", ("-dp",), since="0.8.5"),),
        reads=(_parallel("data_parallel_size"), StartLog(r"\bdata_parallel_size=(\d+)")),
        search="by_name",
        help="Engine copies behind one server; all of them must hold equal hot values.",
    ),
    Knob(
        name="enable_expert_parallel",
        domain=Switch(),
        places=(
            Flag("--enable-expert-parallel", ("-ep",), off="--no-enable-expert-parallel", since="0.8.5"),
        ),
        reads=(_parallel("enable_expert_parallel"),),
        search="by_name",
        help="Spread the experts of a mixture-of-experts model over the devices. On Ascend the way they "
        "communicate depends on the tokens of a step, so that step time is not monotonic in the token "
        "budget.",
    ),
    Knob(
        name="enable_eplb",
        domain=Switch(),
        places=(Flag("--enable-eplb", off="--no-enable-eplb", since="0.9.2"),),
        reads=(_parallel("enable_eplb"),),
        search="by_name",
        help="Move experts between devices by their load. vllm-ascend has its own (additional_config).",
    ),
    Knob(
        name="enable_dbo",
        domain=Switch(),
        places=(Flag("--enable-dbo", off="--no-enable-dbo", since="0.11.0"),),
        reads=(_parallel("enable_dbo"),),
        search="by_name",
        help="Overlap the communication of one half of a batch with the computing of the other.",
    ),
    Knob(
        name="all2all_backend",
        domain=Choices(
            ("naive", "allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency"), True
        ),
        places=(Flag("--all2all-backend", since="0.11.2"),),
        reads=(_parallel("all2all_backend"),),
        platforms=frozenset({"cuda"}),
        search="by_name",
        help="How experts on different devices exchange tokens.",
    ),
    Knob(
        name="decode_context_parallel_size",
        domain=Numbers(least=1, most=1024),
        unit="devices",
        places=(Flag("--decode-context-parallel-size", ("-dcp",), since="0.10.2"),),
        reads=(
            _parallel("decode_context_parallel_size"),
            StartLog(r"\bdecode_context_parallel_size=(\d+)"),
        ),
        search="by_name",
        help="Devices of a tensor-parallel group that share the KV of one context while decoding.",
    ),
    Knob(
        name="prefill_context_parallel_size",
        domain=Numbers(least=1, most=1024),
        unit="devices",
        places=(Flag("--prefill-context-parallel-size", ("-pcp",), since="0.12.0"),),
        reads=(_parallel("prefill_context_parallel_size"),),
        search="by_name",
        help="Devices that share the prompt of one request; they come on top of the tensor-parallel ones.",
    ),
    Knob(
        name="disable_custom_all_reduce",
        domain=Switch(),
        places=(
            Flag("--disable-custom-all-reduce", until="0.8.5"),
            Flag("--disable-custom-all-reduce", off="--no-disable-custom-all-reduce", since="0.8.5"),
        ),
        reads=(
            _parallel("disable_custom_all_reduce"),
            StartLog(r"\bdisable_custom_all_reduce=(True|False)"),
        ),
        platforms=frozenset({"cuda"}),
        help="Use the vendor's all-reduce in place of vLLM's own.",
    ),
    Knob(
        name="distributed_executor_backend",
        domain=Choices(("mp", "ray", "uni", "external_launcher"), others=True),
        places=(Flag("--distributed-executor-backend"),),
        reads=(_parallel("distributed_executor_backend"),),
        help="What starts the workers. It belongs to how the engine is put on the machines, not to its speed.",
    ),
    Knob(
        name="numa_bind",
        domain=Switch(),
        places=(Flag("--numa-bind", off="--no-numa-bind", since="0.20.2"),),
        reads=(_parallel("numa_bind"),),
        search="by_name",
        help="vLLM's own binding of workers to memory nodes; the host lane does it without a restart.",
    ),
    Knob(
        name="api_server_count",
        domain=Numbers(least=1, most=64, tried=(1, 2, 4)),
        unit="processes",
        places=(Flag("--api-server-count", ("-asc",), since="0.9.0"),),
        search="by_name",
        help="Processes that take requests. With several the hot lane needs TRIMTAB_RUN_DIR, and gauges are those of "
        "the process that was asked.",
    ),
    Knob(
        name="renderer_num_workers",
        domain=Numbers(least=1, most=64, tried=(1, 2, 4)),
        unit="threads",
        places=(Flag("--renderer-num-workers", since="0.19.0"),),
        reads=(ServerInfo(("vllm_config", "model_config", "renderer_num_workers")),),
        search="free",
        help="Threads that turn prompts into tokens.",
    ),
    Knob(
        name="tokenizer_pool_size",
        domain=Numbers(least=0, most=256),
        unit="workers",
        places=(Flag("--tokenizer-pool-size", until="0.10.0"),),
        help="Tokenizer workers of old engines; from 0.19 on renderer_num_workers.",
    ),
    Knob(
        name="shutdown_timeout",
        domain=Numbers(least=0, most=86400),
        unit="seconds",
        places=(Flag("--shutdown-timeout", since="0.18.0"),),
        help="How long running requests may finish after SIGTERM.",
    ),
    Knob(
        name="cpu_kvcache_space",
        domain=Numbers(least=1, most=4096),
        unit="GiB",
        places=(Variable("VLLM_CPU_KVCACHE_SPACE"),),
        reads=(ServerInfo(("vllm_env", "VLLM_CPU_KVCACHE_SPACE")),),
        platforms=frozenset({"cpu"}),
        search="by_name",
        help="Host memory for KV where vLLM runs on a CPU.",
    ),
)
