"""The plugin's middleware in an engine's command: whether `trimtab serve` adds it, and why not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

MIDDLEWARE = "trimtab_plugin.http.Middleware"


@dataclass(frozen=True, slots=True)
class Addition:
    """What is added to the engine's command, or why nothing is."""

    arguments: tuple[str, ...]
    text: str


def addition(command: Sequence[str], find_plugin: Callable[[str], bool]) -> Addition:
    """Decide whether the plugin's middleware is added to `command`.

    It is added to vLLM's server only, where the plugin is installed and nobody named it already: a server
    does not start with a middleware it cannot import. `find_plugin(python)` tells whether that Python has it.
    """
    if any("trimtab_plugin" in word for word in command):
        return Addition((), "the command names the plugin already")
    python = _interpreter(command)
    if python is None:
        return Addition(
            (), "the command is no vLLM server: no hot lane, unless its plugin is loaded otherwise"
        )
    if not find_plugin(python):
        return Addition((), f"trimtab-plugin is not installed for {python}: no hot lane; install it there")
    return Addition(("--middleware", MIDDLEWARE), f"added to the command: --middleware {MIDDLEWARE}")


def _interpreter(command: Sequence[str]) -> str | None:
    """The Python that runs a vLLM server command, or None if the command is something else."""
    if not command:
        return None
    program = Path(command[0]).name
    if program.startswith("python") and "vllm.entrypoints.openai.api_server" in command:
        return command[0]
    if program == "vllm" and len(command) > 1 and command[1] == "serve":
        script = shutil.which(command[0])
        return _shebang(Path(script)) if script else None
    return None


def _shebang(script: Path) -> str | None:
    try:
        with script.open("rb") as file:
            first = file.readline(1024)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0] if words else None


def has_plugin(python: str) -> bool:
    """Whether the interpreter finds the plugin's package; nothing of the engine is imported."""
    question = "import importlib.util as u, sys; sys.exit(u.find_spec('trimtab_plugin') is None)"
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreter of the operator's own command
            [python, "-c", question], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0
