"""What an engine's command line says: which engine it is, and its part of a disaggregated or many-node setup."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import psutil

from collectors.engines.families import KindName, Role

KV_ROLES: dict[str, Role] = {"kv_producer": "prefill", "kv_consumer": "decode", "kv_both": "both"}
"""vLLM's `kv_role` in `--kv-transfer-config`."""
DISAGGREGATION_MODES: dict[str, Role] = {"prefill": "prefill", "decode": "decode", "null": "both"}
"""SGLang's `--disaggregation-mode`."""


@dataclass(frozen=True, slots=True)
class Launch:
    """An engine's command line as far as it was understood; None is unknown."""

    kind: KindName
    role: Role | None = None
    note: str | None = None


def read_argv(argv: Sequence[str]) -> Launch | None:
    """What a process is by its arguments, or None for something else than an engine's server.

    Flags are read as vLLM and SGLang read them: `--flag value`, `--flag=value`, underscores for dashes. An option
    that stands twice counts as it stands last. Where options may come from a file (`--config`) a role that is not
    on the line is unknown.
    """
    kind = _kind(argv)
    if kind is None:
        return None
    if kind == "mindie":
        return Launch(kind)
    options = _options(argv)
    default: Role | None = None if "config" in options else "both"
    if kind == "sglang":
        mode = options.get("disaggregation-mode")
        return Launch(kind, default if mode is None else DISAGGREGATION_MODES.get(mode.lower()))
    if "headless" in options:
        return Launch(kind, "headless")
    dotted = options.get("kv-transfer-config.kv-role")
    if dotted is not None:
        return Launch(kind, KV_ROLES.get(dotted))
    transfer = options.get("kv-transfer-config")
    if transfer is None:
        return Launch(kind, default)
    try:
        values = json.loads(transfer)
    except ValueError as failure:
        return Launch(kind, None, f"--kv-transfer-config is not JSON: {failure}")
    role = values.get("kv_role") if isinstance(values, dict) else None
    return Launch(kind, KV_ROLES.get(role) if isinstance(role, str) else None)


def find_launch(pid: int) -> Launch | None:
    """Read the process `pid`, or the first of its descendants that is an engine's server.

    None if there is none that may be read, or the process is gone.
    """
    try:
        top = psutil.Process(pid)
        family = [top, *top.children(recursive=True)]
    except psutil.Error:
        return None
    for process in family:
        try:
            found = read_argv(process.cmdline())
        except psutil.Error:
            continue
        if found is not None:
            return found
    return None


def _kind(argv: Sequence[str]) -> KindName | None:
    """By the program, or by what a Python runs: a module (`-m`) or a script."""
    words = [PurePath(word).name for word in argv[:2]]
    modules = {argv[at + 1] for at, word in enumerate(argv[:-1]) if word == "-m"}
    if "vllm.entrypoints.openai.api_server" in modules:
        return "vllm"
    if "sglang.launch_server" in modules:
        return "sglang"
    # `vllm serve` is a script: with its interpreter before it, it stands second.
    for at, word in enumerate(words):
        if word == "vllm" and argv[at + 1 : at + 2] == ["serve"]:
            return "vllm"
        if word == "sglang" and argv[at + 1 : at + 2] == ["serve"]:
            return "sglang"
        if word in ("mindieservice_daemon", "mindie_llm_server"):
            return "mindie"
    return None


def _options(argv: Sequence[str]) -> dict[str, str]:
    """Long options without their dashes, and their values; a switch has the empty value."""
    found: dict[str, str] = {}
    for at, word in enumerate(argv):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            following = argv[at + 1] if at + 1 < len(argv) else ""
            value = "" if following.startswith("--") else following
        found[name.replace("_", "-")] = value
    return found
