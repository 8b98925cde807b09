"""Environment variables of an engine on Ascend: vllm-ascend's, torch_npu's, HCCL's, and the processor's."""

from __future__ import annotations

from change.catalogue.domain import Choices, Numbers, Switch, Words
from change.catalogue.knob import Engine, Knob, Platform, ServerInfo, Variable

_ASCEND: frozenset[Platform] = frozenset({"ascend"})


def of(engine: Engine) -> tuple[Knob, ...]:
    """The variables as knobs of an engine: torch_npu, HCCL and OpenMP read them whatever serves."""
    return (
        Knob(
            name="npu_alloc_conf",
            engine=engine,
            domain=Choices(("expandable_segments:True", "expandable_segments:False"), others=True),
            places=(Variable("PYTORCH_NPU_ALLOC_CONF"),),
            platforms=_ASCEND,
            search="free",
            help="How torch_npu cuts up device memory (expandable_segments:True against fragmentation).",
        ),
        Knob(
            name="hccl_op_expansion_mode",
            engine=engine,
            domain=Choices(("AI_CPU", "AIV", "HOST", "HOST_TS", "CCU_MS", "CCU_SCHED")),
            places=(Variable("HCCL_OP_EXPANSION_MODE"),),
            platforms=_ASCEND,
            search="by_name",
            help="Where collective operators are unfolded; which words a chip takes differs.",
        ),
        Knob(
            name="hccl_buffsize",
            engine=engine,
            domain=Numbers(least=1, most=65536, tried=(200, 512, 1024, 2048)),
            unit="MB",
            places=(Variable("HCCL_BUFFSIZE"),),
            platforms=_ASCEND,
            search="by_name",
            help="Buffer of each communicator, default 200. Too small is an error that names the size needed; it takes "
            "device memory twice over for each communicator.",
        ),
        Knob(
            name="task_queue_enable",
            engine=engine,
            domain=Numbers(least=0, most=2, tried=(0, 1, 2)),
            places=(Variable("TASK_QUEUE_ENABLE"),),
            platforms=_ASCEND,
            search="free",
            help="How operators are handed to the device: 0 at once, 1 by a queue, 2 with more work in the queue.",
        ),
        Knob(
            name="cpu_affinity_conf",
            engine=engine,
            domain=Words(),
            places=(Variable("CPU_AFFINITY_CONF"),),
            platforms=_ASCEND,
            help="torch_npu's own CPU binding; excludes vllm-ascend's.",
        ),
        Knob(
            name="omp_threads",
            engine=engine,
            domain=Numbers(least=1, most=1024, low=1, high=32, log=True),
            unit="threads",
            places=(Variable("OMP_NUM_THREADS"),),
            search="free",
            help="CPU threads of each process for operators on the host.",
        ),
        Knob(
            name="omp_proc_bind",
            engine=engine,
            domain=Choices(("false", "true", "close", "spread", "master"), others=True),
            places=(Variable("OMP_PROC_BIND"),),
            help="OpenMP's own binding of threads. `true` breaks vllm-ascend's CPU binding.",
        ),
    )


VLLM = (
    *of("vllm"),
    Knob(
        name="ascend_mlapo",
        domain=Switch(),
        places=(Variable("VLLM_ASCEND_ENABLE_MLAPO"),),
        reads=(ServerInfo(("vllm_env", "VLLM_ASCEND_ENABLE_MLAPO")),),
        platforms=_ASCEND,
        help="As additional_config.enable_mlapo, which replaces it from 0.23 on.",
    ),
    Knob(
        name="ascend_nz",
        domain=Numbers(least=0, most=2),
        places=(Variable("VLLM_ASCEND_ENABLE_NZ"),),
        reads=(ServerInfo(("vllm_env", "VLLM_ASCEND_ENABLE_NZ")),),
        platforms=_ASCEND,
        help="As additional_config.weight_nz_mode, which replaces it from 0.23 on.",
    ),
    Knob(
        name="ascend_flashcomm1",
        domain=Switch(),
        places=(Variable("VLLM_ASCEND_ENABLE_FLASHCOMM1", until="0.26.0"),),
        platforms=_ASCEND,
        help="As additional_config.enable_flashcomm1, which replaces it from 0.23 on.",
    ),
    Knob(
        name="ascend_matmul_allreduce",
        domain=Switch(),
        places=(Variable("VLLM_ASCEND_ENABLE_MATMUL_ALLREDUCE", until="0.25.1"),),
        platforms=_ASCEND,
        help="As additional_config.enable_matmul_allreduce, which replaces it from 0.23 on.",
    ),
    Knob(
        name="ascend_balance_scheduling",
        domain=Switch(),
        places=(Variable("VLLM_ASCEND_BALANCE_SCHEDULING", until="0.25.1"),),
        platforms=_ASCEND,
        help="As additional_config.enable_balance_scheduling, which replaces it from 0.23 on.",
    ),
    Knob(
        name="ascend_dynamic_eplb",
        domain=Switch(),
        places=(Variable("DYNAMIC_EPLB", on="true", off="false"),),
        platforms=_ASCEND,
        help="Lets additional_config.eplb_config.dynamic_eplb be switched on.",
    ),
    Knob(
        name="ascend_batch_memcpy",
        domain=Switch(),
        places=(Variable("VLLM_ASCEND_ENABLE_BATCH_MEMCPY", since="0.25.1"),),
        platforms=_ASCEND,
        help="Copy KV between host and device in batches; unset, the CANN there is decides.",
    ),
)
SGLANG = of("sglang")
