"""What a process of an engine is for, from the title it gives itself."""

from __future__ import annotations

import re

MAX_ROLES = 96
"""Processes told apart; any further one is `other`, so that labels stay few."""

_TITLE = re.compile(r"(?:VLLM|sglang)::([A-Za-z]\w{0,39})", re.IGNORECASE)
_MODULE = re.compile(r"\bmultiprocessing\.(resource_tracker|forkserver)\b")


def role(command_line: str, name: str, *, main: bool) -> str:
    """A short name: `EngineCore`, `Worker_TP0`, `scheduler_TP1`, `main` for the process the engine began with.

    vLLM and SGLang set titles such as `VLLM::Worker_TP0` and `sglang::scheduler_TP0`; the name in `stat` is cut
    at 15 characters, so the command line comes first. A process without a title goes by its program.
    """
    for text in (command_line, name):
        match = _TITLE.match(text.strip("\0 "))
        if match is not None:
            return match[1]
    if main:
        return "main"
    module = _MODULE.search(command_line)
    if module is not None:
        return module[1]
    return re.sub(r"[^\w.-]", "_", name)[:15] or "unnamed"


class Roles:
    """Gives each process its label, and keeps the number of labels below `MAX_ROLES`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def label(self, wanted: str) -> str:
        """The role itself, or `other` when there are too many."""
        if wanted in self._known or len(self._known) < MAX_ROLES:
            self._known.add(wanted)
            return wanted
        return "other"
