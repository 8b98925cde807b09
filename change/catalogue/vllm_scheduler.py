"""vLLM's knobs of batching, queues and scheduling: those that change in the running engine, and their launch flags."""

from __future__ import annotations

from change.catalogue.domain import Choices, Json, Numbers, Switch
from change.catalogue.knob import (
    Attribute,
    Flag,
    Knob,
    PluginCeiling,
    PluginLaunch,
    ServerInfo,
    StartLog,
)

# A token budget or cap is never useful beyond this, and the engine's ceiling is far below it.
_MANY_TOKENS = 1_048_576


def _info(key: str) -> ServerInfo:
    return ServerInfo(("vllm_config", "scheduler_config", key))


HOT = (
    Knob(
        name="batch_max_tokens",
        lane="hot",
        domain=Numbers(least=1, most=_MANY_TOKENS, low=64, high=65536, log=True),
        unit="tokens",
        places=(Flag("--max-num-batched-tokens"),),
        attributes=(Attribute("Scheduler.max_num_scheduled_tokens", "0.9.2"),),
        reads=(
            PluginCeiling(),
            _info("max_num_batched_tokens"),
            StartLog(r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)"),
        ),
        search="free",
        help="Tokens one engine step may hold: prompt tokens of new requests plus one per decoding request. "
        "More fills the chip better, fewer make steps short. The launch value is the ceiling; Ascend's "
        "default is 2048.",
    ),
    Knob(
        name="max_prefill_tokens",
        lane="hot",
        domain=Numbers(least=1, most=_MANY_TOKENS, low=64, high=16384, log=True, zero_is_off=True),
        unit="tokens",
        attributes=(Attribute("the plugin's wrapper of Scheduler.schedule", "0.9.2"),),
        search="free",
        help="Prompt tokens one engine step may hold over all requests; decoding requests come on top. "
        "Keeps decode steps short while long prompts come in. 0 is no cap. vLLM has no flag for it.",
    ),
    Knob(
        name="long_prefill_tokens",
        lane="hot",
        domain=Numbers(least=1, most=_MANY_TOKENS, low=64, high=16384, log=True, zero_is_off=True),
        unit="tokens",
        places=(Flag("--long-prefill-token-threshold", since="0.7.3"),),
        attributes=(Attribute("Scheduler.scheduler_config.long_prefill_token_threshold", "0.9.2"),),
        reads=(PluginLaunch(), _info("long_prefill_token_threshold")),
        search="free",
        help="Prompt tokens one engine step may take of one request, so that a long prompt leaves room for "
        "short ones. 0 is no cap. From 0.31 on it does not apply to a request that is alone.",
    ),
    Knob(
        name="max_num_seqs",
        lane="hot",
        domain=Numbers(least=1, most=65536, low=8, high=2048, log=True),
        unit="requests",
        places=(Flag("--max-num-seqs"),),
        attributes=(
            Attribute("Scheduler.max_num_running_reqs", "0.9.2", "0.31.0"),
            Attribute("Scheduler.max_num_active_reqs", "0.31.0"),
        ),
        reads=(PluginCeiling(), _info("max_num_seqs")),
        search="free",
        help="Requests that may run at once; the others wait. The launch value is the ceiling; Ascend's "
        "default is 256. Lowered, the running ones finish first.",
    ),
    Knob(
        name="watermark",
        lane="hot",
        domain=Numbers(least=0.0, most=0.99, low=0.0, high=0.2, integer=False),
        unit="share of KV blocks",
        places=(Flag("--watermark", since="0.24.0"),),
        attributes=(Attribute("Scheduler.kv_cache_manager.watermark_blocks", "0.24.0"),),
        reads=(PluginLaunch(), _info("watermark")),
        search="free",
        help="Share of the KV cache kept free when a request is admitted. More means fewer preemptions, "
        "less means more requests at once.",
    ),
    Knob(
        name="priority_by_size",
        lane="hot",
        domain=Numbers(least=0, most=2, tried=(0, 1, 2)),
        unit="0 off, 1 long first, 2 short first",
        attributes=(Attribute("Scheduler.add_request", "0.28.0"),),
        reads=(PluginLaunch(),),
        search="by_name",
        help="Priority of a request whose client gave none, by the length of its prompt: over 2048 tokens, over 512, "
        "or less. Only where scheduling_policy is priority. Under a standing queue the class served last may wait for "
        "ever.",
    ),
)

COLD = (
    Knob(
        name="max_num_active_seqs",
        domain=Numbers(least=1, most=65536),
        unit="requests",
        places=(Flag("--max-num-active-seqs", since="0.31.0"),),
        reads=(_info("max_num_active_seqs"),),
        help="Requests that are admitted at once, at most max_num_seqs. max_num_seqs is changed hot by the same "
        "counter, so this flag is left alone.",
    ),
    Knob(
        name="prefill_schedule_interval",
        domain=Numbers(least=1, most=1024, tried=(1, 2, 4, 8)),
        unit="steps",
        places=(Flag("--prefill-schedule-interval", since="0.24.0"),),
        reads=(_info("prefill_schedule_interval"),),
        search="free",
        help="Steps between two admissions of prompts. The scheduler reads it at every step from 0.33 on, "
        "but the plugin does not change it.",
    ),
    Knob(
        name="max_num_queued_reqs",
        domain=Numbers(least=0, most=1_000_000),
        unit="requests",
        places=(Flag("--max-num-queued-reqs", since="0.30.0"),),
        reads=(_info("max_num_queued_reqs"),),
        help="Requests that may wait; beyond it the server answers 503. A limit of the operator's, not a knob "
        "of speed.",
    ),
    Knob(
        name="max_num_queued_tokens",
        domain=Numbers(least=0, most=1_000_000_000),
        unit="tokens",
        places=(Flag("--max-num-queued-tokens", since="0.30.0"),),
        reads=(_info("max_num_queued_tokens"),),
        help="Prompt tokens that may wait; beyond it the server answers 503. A limit of the operator's, not a "
        "knob of speed.",
    ),
    Knob(
        name="scheduling_policy",
        domain=Choices(("fcfs", "priority")),
        places=(Flag("--scheduling-policy", since="0.6.6"),),
        reads=(_info("policy"),),
        search="free",
        help="fcfs or priority; a request's priority is a field of the request.",
    ),
    Knob(
        name="enable_chunked_prefill",
        domain=Switch(),
        places=(
            Flag("--enable-chunked-prefill", until="0.8.5"),
            Flag("--enable-chunked-prefill", off="--no-enable-chunked-prefill", since="0.8.5"),
        ),
        reads=(
            _info("enable_chunked_prefill"),
            StartLog(r"\benable_chunked_prefill=(True|False)"),
            StartLog(r"\bchunked_prefill_enabled=(True|False)"),
        ),
        search="free",
        help="Split long prompts over steps. Off, the token budget must hold a whole prompt (max_model_len).",
    ),
    Knob(
        name="async_scheduling",
        domain=Switch(),
        places=(Flag("--async-scheduling", off="--no-async-scheduling", since="0.10.0"),),
        reads=(
            _info("async_scheduling"),
            StartLog(r"Asynchronous scheduling is enabled", True),
            StartLog(r"Asynchronous scheduling is disabled", False),
        ),
        search="free",
        help="Schedule the next step while the device works on this one.",
    ),
    Knob(
        name="reserve_full_prompt",
        domain=Switch(),
        places=(Flag("--scheduler-reserve-full-isl", off="--no-scheduler-reserve-full-isl", since="0.19.0"),),
        reads=(_info("scheduler_reserve_full_isl"),),
        search="free",
        help="Admit a request only if the KV of its whole prompt has room, not just that of its first chunk.",
    ),
    Knob(
        name="max_num_partial_prefills",
        domain=Numbers(least=1, most=1024, tried=(1, 2, 4)),
        unit="requests",
        places=(Flag("--max-num-partial-prefills", since="0.7.3", until="0.28.0"),),
        reads=(_info("max_num_partial_prefills"),),
        search="by_name",
        help="Prompts that may be in chunks at once; V1 engines took 1 only.",
    ),
    Knob(
        name="max_long_partial_prefills",
        domain=Numbers(least=1, most=1024),
        unit="requests",
        places=(Flag("--max-long-partial-prefills", since="0.7.3", until="0.28.0"),),
        reads=(_info("max_long_partial_prefills"),),
        help="Long prompts among max_num_partial_prefills.",
    ),
    Knob(
        name="num_scheduler_steps",
        domain=Numbers(least=1, most=64),
        unit="steps",
        places=(Flag("--num-scheduler-steps", until="0.10.2"),),
        help="Steps that one round of scheduling makes, in old engines.",
    ),
    Knob(
        name="scheduler_delay_factor",
        domain=Numbers(least=0, most=10, integer=False),
        places=(Flag("--scheduler-delay-factor", until="0.11.0"),),
        help="Wait before the next prompt, as a share of the time of the last, in old engines.",
    ),
    Knob(
        name="speculative_config",
        domain=Json(),
        places=(Flag("--speculative-config", since="0.8.5"),),
        help="Draft tokens as one JSON object. A step must hold max_num_seqs x (1 + draft tokens).",
    ),
    Knob(
        name="stream_interval",
        domain=Numbers(least=1, most=1024),
        unit="tokens",
        places=(Flag("--stream-interval", since="0.11.2"),),
        reads=(_info("stream_interval"),),
        help="Tokens that are sent together; more is less work for the API server and a coarser stream. Changes what "
        "users see, so it is theirs to set.",
    ),
)
