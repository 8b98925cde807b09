"""Operators that run one after the other and could be one, with the engine's switch for it where there is one."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.profile.findings.finding import Figure, Finding
from collectors.profile.model import Neighbours, RankProfile
from collectors.profile.switches import SWITCHES, Installed, Switch

OF_COMPUTING = 0.02
LEAST_COUNT = 2

WHAT: dict[str, tuple[str, str]] = {
    "norm-matmul-gelu": (
        "LayerNorm or RmsNorm, MatMul and Gelu",
        "torch_npu's npu_ffn joins the products with the activation; the norm stays apart.",
    ),
    "softmax-batchmatmul": (
        "Softmax and BatchMatMul",
        "This is attention written out: the engine's fused attention (FlashAttention, PagedAttention) was not used. "
        "See which attention backend the engine's log names.",
    ),
    "split-qkv": (
        "separate q, k and v projections of one input",
        "One product over the joined weights reads the input once; vLLM's own models do so (QKVParallelLinear).",
    ),
    "matmul-allreduce": (
        "MatMul and AllReduce",
        "Fused, the transfer of one part covers the product of the next.",
    ),
    "qk-norm-rope": ("the norms of q and k and their rotary embedding", "One kernel can do all three."),
    "add-norm": (
        "Add and RmsNorm or LayerNorm",
        "AddRmsNorm does both; vLLM's RMSNorm uses it when it is handed the residual.",
    ),
    "norm-quant": ("a norm and the quantisation of its result", "AddRmsNormQuant does both."),
    "swiglu-quant": ("grouped MatMul, SwiGlu and quantisation", "One kernel does an expert's first half."),
    "muls-add": ("a multiplication by a number and an addition", "One pass over the tensor in place of two."),
}


def examine(profiles: Sequence[RankProfile], installed: Installed | None) -> list[Finding]:
    """One finding for each pattern that takes enough of some rank's computing."""
    found: dict[str, list[tuple[RankProfile, Neighbours]]] = {}
    for profile in profiles:
        for neighbours in profile.neighbours:
            if (
                neighbours.count >= LEAST_COUNT
                and neighbours.seconds > 0
                and neighbours.seconds >= OF_COMPUTING * profile.computing_seconds
            ):
                found.setdefault(neighbours.pattern, []).append((profile, neighbours))
    return [_finding(pattern, seen, installed) for pattern, seen in found.items()]


def _finding(
    pattern: str, seen: list[tuple[RankProfile, Neighbours]], installed: Installed | None
) -> Finding:
    what, how = WHAT[pattern]
    figures = []
    for profile, neighbours in seen:
        figures += [
            Figure(" + ".join(neighbours.example), neighbours.count, "count", profile.label),
            Figure("their time", neighbours.seconds, "seconds", profile.label),
            Figure(
                "their time of computing",
                neighbours.seconds / profile.computing_seconds,
                "share",
                profile.label,
            ),
        ]
    return Finding(
        f"unfused_{pattern.replace('-', '_')}",
        "medium",
        f"Not fused: {what}",
        how,
        tuple(figures),
        f"at least {LEAST_COUNT} times and {OF_COMPUTING:.0%} of computing",
        switch_advice(SWITCHES.get(pattern, ()), installed),
    )


def switch_advice(switches: Sequence[Switch], installed: Installed | None) -> tuple[str, ...]:
    """What to set in the engine, by the installed vllm-ascend if there is one to read."""
    if not switches:
        return ("vllm-ascend has no switch for this",)
    if installed is None:
        return (
            "vllm-ascend's switches by release: "
            + "; ".join(f"{switch.setting} ({switch.releases})" for switch in switches),
            "which one yours has was not looked up: name it with --vllm-ascend PATH",
        )
    version = f"vllm-ascend {installed.version or 'of unknown version'} in {installed.path}"
    present = [switch for switch in switches if switch.name in installed.defaults]
    if not present:
        return (f"{version} has no switch for this",)
    return tuple(_present(switch, installed, version) for switch in present)


def _present(switch: Switch, installed: Installed, version: str) -> str:
    default = installed.defaults[switch.name]
    if default is True or default == 1:
        return (
            f"{version} has {switch.name}, on by default: see whether it was switched off, whether the model ran "
            "in eager mode, and whether its pass fits this model"
        )
    known = "off by default" if default is False or default == 0 else "its default depends on the machine"
    return f"{version} has {switch.name}, {known}: {switch.setting}"
