"""MindIE's knobs. They are keys of its own config.json, from Huawei's documentation of 1.0 to 2.1; none is written."""

from __future__ import annotations

from change.catalogue.domain import Domain, Numbers, Switch
from change.catalogue.knob import FileKey, Knob

_SCHEDULE = "BackendConfig.ScheduleConfig"
_DEPLOY = "BackendConfig.ModelDeployConfig"
_MODEL = _DEPLOY + ".ModelConfig"


def _knob(name: str, section: str, key: str, domain: Domain, unit: str, help: str) -> Knob:
    return Knob(
        name=name,
        engine="mindie",
        domain=domain,
        unit=unit,
        places=(FileKey(key, section),),
        platforms=frozenset({"ascend"}),
        help=help,
    )


def _count(least: int = 1, most: int = 1_048_576) -> Numbers:
    return Numbers(least=least, most=most)


KNOBS = (
    _knob(
        "max_prefill_tokens",
        _SCHEDULE,
        "maxPrefillTokens",
        _count(),
        "tokens",
        "Prompt tokens of one prefill batch; at least maxInputTokenLen.",
    ),
    _knob(
        "max_prefill_batch_size",
        _SCHEDULE,
        "maxPrefillBatchSize",
        _count(),
        "requests",
        "Requests of one prefill batch; at most maxBatchSize.",
    ),
    _knob(
        "max_num_seqs",
        _SCHEDULE,
        "maxBatchSize",
        _count(1, 5000),
        "requests",
        "Requests that decode at once.",
    ),
    _knob(
        "max_model_len",
        _DEPLOY,
        "maxSeqLen",
        _count(1, 100_000_000),
        "tokens",
        "Tokens of a request, prompt and answer together.",
    ),
    _knob(
        "max_input_tokens",
        _DEPLOY,
        "maxInputTokenLen",
        _count(1, 100_000_000),
        "tokens",
        "Prompt tokens of a request.",
    ),
    _knob(
        "max_output_tokens",
        _SCHEDULE,
        "maxIterTimes",
        _count(1, 100_000_000),
        "tokens",
        "Tokens that may be generated for a request.",
    ),
    _knob(
        "max_preemptions",
        _SCHEDULE,
        "maxPreemptCount",
        _count(0),
        "requests",
        "Requests that one round of scheduling may throw out of the batch; 0 throws out none.",
    ),
    _knob(
        "prefer_prefill_by_time",
        _SCHEDULE,
        "supportSelectBatch",
        Switch(),
        "",
        "Choose between prefill and decode by their times: more tokens, later first tokens. Off, prefill goes first.",
    ),
    _knob(
        "prefill_time_per_request",
        _SCHEDULE,
        "prefillTimeMsPerReq",
        _count(0, 1000),
        "milliseconds",
        "Time of a prompt that supportSelectBatch reckons with.",
    ),
    _knob(
        "decode_time_per_request",
        _SCHEDULE,
        "decodeTimeMsPerReq",
        _count(0, 1000),
        "milliseconds",
        "Time of a decode step that supportSelectBatch reckons with.",
    ),
    _knob(
        "max_queue_delay",
        _SCHEDULE,
        "maxQueueDelayMicroseconds",
        _count(500, 1_000_000),
        "microseconds",
        "How long a batch waits for more requests.",
    ),
    _knob(
        "block_size",
        _SCHEDULE,
        "cacheBlockSize",
        _count(1, 128),
        "tokens",
        "Tokens in one KV block; 128 is advised, else a power of two.",
    ),
    _knob(
        "swap_space",
        _MODEL,
        "cpuMemSize",
        _count(0, 4096),
        "GiB",
        "Host memory for swapped-out KV.",
    ),
    _knob(
        "npu_kv_memory",
        _MODEL,
        "npuMemSize",
        _count(-1, 4096),
        "GiB",
        "Device memory for KV on each NPU; -1 takes what is free.",
    ),
    _knob(
        "world_size",
        _MODEL,
        "worldSize",
        _count(1, 1024),
        "devices",
        "Devices that share the model.",
    ),
    _knob(
        "tokenizer_processes",
        "BackendConfig",
        "tokenizerProcessNumber",
        _count(1, 32),
        "processes",
        "Tokenizer processes.",
    ),
)
