"""The knobs that Trimtab knows and does not change yet: their flags, versions and known facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class OtherKnob:
    """One knob outside today's hot lane; it exists from version `since` to before `until`."""

    name: str
    flag: str
    help: str
    engine: Literal["vllm", "sglang", "mindie"] = "vllm"
    lane: Literal["hot", "cold"] = "cold"
    kind: Literal["int", "float", "bool", "text", "json"] = "text"
    unit: str = ""
    since: str | None = None
    until: str | None = None


OTHER_KNOBS: tuple[OtherKnob, ...] = (
    OtherKnob(
        "block_size",
        "--block-size",
        "Tokens in one KV block. On Ascend forced to 128 under prefix caching or chunked prefill, both on "
        "by default; hybrid models want multiples of 128 and fail at start with 16. Read it back in "
        "cache_config_info.",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "swap_space",
        "--swap-space",
        "Host memory for swapped-out KV. Gone in 0.18: the engine then exits with code 2. Its successors "
        "(kv_offloading) are a prefix cache in host memory and free no HBM: not the same thing.",
        kind="float",
        unit="GiB",
        until="0.18.0",
    ),
    OtherKnob(
        "kv_offloading_size",
        "--kv-offloading-size",
        "Prefix cache in host memory, on CUDA and CPU, with --kv-offloading-backend. On Ascend: "
        "--kv-transfer-config with OffloadingConnector and NPUOffloadingSpec (cpu_bytes_to_use).",
        kind="float",
        unit="GiB",
        since="0.11.2",
    ),
    OtherKnob(
        "prefill_schedule_interval",
        "--prefill-schedule-interval",
        "Steps between two admissions of prompts. Could be changed inside the engine from 0.33 on.",
        lane="hot",
        kind="int",
        unit="steps",
        since="0.24.0",
    ),
    OtherKnob(
        "max_num_queued_reqs",
        "--max-num-queued-reqs",
        "Requests that may wait; beyond it the server answers 503. Lives in the API process.",
        lane="hot",
        kind="int",
        unit="requests",
        since="0.30.0",
    ),
    OtherKnob(
        "max_num_queued_tokens",
        "--max-num-queued-tokens",
        "Prompt tokens that may wait; beyond it the server answers 503. Lives in the API process.",
        lane="hot",
        kind="int",
        unit="tokens",
        since="0.30.0",
    ),
    OtherKnob(
        "gpu_memory_utilization",
        "--gpu-memory-utilization",
        "Share of device memory for weights, activations and KV. Default 0.9, and 0.92 since 0.20.2.",
        kind="float",
        unit="share",
    ),
    OtherKnob(
        "scheduling_policy",
        "--scheduling-policy",
        "fcfs or priority; a request's priority is a field of the request.",
    ),
    OtherKnob(
        "enable_prefix_caching",
        "--enable-prefix-caching",
        "Reuse the KV of shared prompt beginnings.",
        kind="bool",
    ),
    OtherKnob(
        "enable_chunked_prefill",
        "--enable-chunked-prefill",
        "Split long prompts over steps. Off, the token budget must hold a whole prompt (max_model_len).",
        kind="bool",
    ),
    OtherKnob(
        "async_scheduling",
        "--async-scheduling",
        "Schedule the next step while the device works on this one.",
        kind="bool",
        since="0.10.0",
    ),
    OtherKnob(
        "kv_cache_dtype",
        "--kv-cache-dtype",
        "Type of the KV cache. Changes answers: only behind an accuracy gate. FP8 does not exist on A2 and "
        "A3.",
    ),
    OtherKnob(
        "quantization",
        "--quantization",
        "On Ascend `ascend` (W8A8, W4A8), AWQ by version; FP8 does not exist on A2 and A3. Only behind an "
        "accuracy gate.",
    ),
    OtherKnob("tensor_parallel_size", "--tensor-parallel-size", "Devices that share each layer.", kind="int"),
    OtherKnob(
        "pipeline_parallel_size", "--pipeline-parallel-size", "Devices that share the layers.", kind="int"
    ),
    OtherKnob(
        "data_parallel_size",
        "--data-parallel-size",
        "Engine copies behind one server; all of them must hold equal hot values.",
        kind="int",
        since="0.8.5",
    ),
    OtherKnob(
        "enable_expert_parallel",
        "--enable-expert-parallel",
        "Spread the experts of a mixture-of-experts model over the devices. On Ascend the way they "
        "communicate depends on the tokens of a step, so that step time is not monotonic in the token "
        "budget.",
        kind="bool",
        since="0.8.5",
    ),
    OtherKnob(
        "cudagraph_capture_sizes",
        "--cudagraph-capture-sizes",
        "Batch sizes for which graphs are captured at start.",
        since="0.11.2",
    ),
    OtherKnob(
        "additional_config",
        "--additional-config",
        "vllm-ascend's own options as one JSON object; keys and defaults differ by version.",
        kind="json",
        since="0.7.3",
    ),
    OtherKnob(
        "npu_alloc_conf",
        "PYTORCH_NPU_ALLOC_CONF",
        "Environment: how torch_npu cuts up device memory (expandable_segments:True against fragmentation).",
    ),
    OtherKnob(
        "hccl_op_expansion_mode",
        "HCCL_OP_EXPANSION_MODE",
        "Environment: where collective operators are unfolded.",
    ),
    OtherKnob(
        "hccl_buffsize",
        "HCCL_BUFFSIZE",
        "Environment: buffer of each communicator. Too small is an error that names the size needed.",
        kind="int",
        unit="MB",
    ),
    OtherKnob(
        "task_queue_enable",
        "TASK_QUEUE_ENABLE",
        "Environment: how operators are handed to the device.",
        kind="int",
    ),
    OtherKnob(
        "omp_threads",
        "OMP_NUM_THREADS",
        "Environment: CPU threads. OMP_PROC_BIND=true breaks Ascend's CPU binding.",
        kind="int",
        unit="threads",
    ),
    OtherKnob("cpu_affinity_conf", "CPU_AFFINITY_CONF", "Environment: torch_npu's own CPU binding."),
    OtherKnob(
        "pp_max_micro_batch_size",
        "--pp-max-micro-batch-size",
        "Running requests per pipeline stage; at most max_running_requests / stages. Changes in the running "
        "server by POST /set_internal_state.",
        engine="sglang",
        lane="hot",
        kind="int",
        unit="requests",
    ),
    OtherKnob(
        "chunked_prefill_size",
        "--chunked-prefill-size",
        "Prompt tokens of one chunk. Reachable inside the server by a plugin from 0.5.15 on.",
        engine="sglang",
        lane="hot",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "max_prefill_tokens",
        "--max-prefill-tokens",
        "Prompt tokens of one prefill batch. Reachable inside the server by a plugin from 0.5.15 on.",
        engine="sglang",
        lane="hot",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "max_running_requests",
        "--max-running-requests",
        "Requests that may run at once.",
        engine="sglang",
        kind="int",
        unit="requests",
    ),
    OtherKnob(
        "page_size",
        "--page-size",
        "Tokens in one KV page; 128 on Ascend.",
        engine="sglang",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "max_prefill_tokens",
        "maxPrefillTokens",
        "Prompt tokens of one prefill batch; at least maxInputTokenLen.",
        engine="mindie",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "max_prefill_batch_size",
        "maxPrefillBatchSize",
        "Requests of one prefill batch.",
        engine="mindie",
        kind="int",
        unit="requests",
    ),
    OtherKnob(
        "max_num_seqs",
        "maxBatchSize",
        "Requests that decode at once.",
        engine="mindie",
        kind="int",
        unit="requests",
    ),
    OtherKnob(
        "max_model_len",
        "maxSeqLen",
        "Tokens of a request, prompt and answer together.",
        engine="mindie",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "max_input_tokens",
        "maxInputTokenLen",
        "Prompt tokens of a request.",
        engine="mindie",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "max_output_tokens",
        "maxIterTimes",
        "Tokens that may be generated for a request.",
        engine="mindie",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "max_preemptions",
        "maxPreemptCount",
        "Requests that one round of scheduling may throw out of the batch; 0 throws out none.",
        engine="mindie",
        kind="int",
        unit="requests",
    ),
    OtherKnob(
        "block_size",
        "cacheBlockSize",
        "Tokens in one KV block; 128 is advised.",
        engine="mindie",
        kind="int",
        unit="tokens",
    ),
    OtherKnob(
        "swap_space",
        "cpuMemSize",
        "Host memory for swapped-out KV.",
        engine="mindie",
        kind="int",
        unit="GiB",
    ),
    OtherKnob(
        "npu_kv_memory",
        "npuMemSize",
        "Device memory for KV on each NPU; -1 takes what is free.",
        engine="mindie",
        kind="int",
        unit="GiB",
    ),
)
