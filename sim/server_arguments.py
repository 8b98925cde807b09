"""The simulated engine's command line: which start-up settings it spells out, and in which flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from change.server import LaunchCommand, Setting, Settings

_READ: Mapping[str, tuple[str, Callable[[str], Setting]]] = MappingProxyType(
    {
        "--block-size": ("block_size", int),
        "--max-num-seqs": ("max_num_seqs", int),
        "--max-num-batched-tokens": ("batch_max_tokens", int),
        "--gpu-memory-utilization": ("gpu_memory_utilization", float),
        "--tensor-parallel-size": ("tensor_parallel_size", int),
        "--pipeline-parallel-size": ("pipeline_parallel_size", int),
        "--kv-cache-dtype": ("kv_cache_dtype", str),
    }
)
_FLAGS = {name: flag for flag, (name, _) in _READ.items()}
_PLAIN = frozenset({"--port", "--host", "--api-key", "--served-model-name"})
LAUNCH = LaunchCommand(
    (
        "vllm", "serve", "/models/q235", "--port", "8000", "--api-key", "sk-simulated",
        "--tensor-parallel-size", "4", "--block-size", "128", "--max-num-seqs", "256",
        "--max-num-batched-tokens", "2048", "--gpu-memory-utilization", "0.9",
    )
)  # fmt: skip


def launch_of(settings: Settings) -> LaunchCommand:
    """The command of an engine that was launched with these settings."""
    return render(LaunchCommand(LAUNCH.argv[:7]), settings)


class BadFlag(Exception):
    """A flag the engine does not know, or a value it cannot read: it exits with code 2."""


def settings_of(command: LaunchCommand) -> dict[str, Setting]:
    """Read the settings that a command spells out; raises `BadFlag` as the engine would."""
    found: dict[str, Setting] = {}
    words = list(command.argv[3:])
    while words:
        flag = words.pop(0)
        if (flag not in _READ and flag not in _PLAIN) or not words:
            raise BadFlag(f"vllm: error: unrecognized arguments: {flag}")
        text = words.pop(0)
        if flag in _READ:
            name, reader = _READ[flag]
            try:
                found[name] = reader(text)
            except ValueError:
                raise BadFlag(f"vllm: error: argument {flag}: invalid value: {text!r}") from None
    return found


def render(command: LaunchCommand, settings: Settings) -> LaunchCommand:
    """The command with these settings in it; an unknown one is spelled as it is, for the engine to refuse."""
    argv = list(command.argv)
    for name, value in settings.items():
        flag = _FLAGS.get(name, "--" + name.replace("_", "-"))
        if flag in argv:
            argv[argv.index(flag) + 1] = str(value)
        else:
            argv += [flag, str(value)]
    return LaunchCommand(tuple(argv), dict(command.environ))
