"""An engine's argument list as its own parser takes it apart: options, their spellings, and the words after them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

_OPTION = re.compile(r"(--?[A-Za-z][\w.+-]*)(?:=(.*))?", re.DOTALL)
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_PROGRAMS = frozenset({"vllm", "sglang"})


class ArgumentProblem(Exception):
    """Settings cannot be written into this command; the text says what, where and what to do."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `name` with dashes and not underscores, `keys` what is dotted on to it (`--flag.a.b`).

    It stands at `at` in the argument list; `attached` is what follows its `=`, and `words` are the elements after
    it up to the next option.
    """

    at: int
    name: str
    keys: tuple[str, ...]
    attached: str | None
    words: tuple[str, ...]

    @property
    def text(self) -> str | None:
        """Its value, if it takes one and has one."""
        if self.attached is not None:
            return self.attached
        return self.words[0] if self.words else None

    def length(self, values: int) -> int:
        """How many elements it takes if it has that many values."""
        if self.attached is not None:
            return 1
        return 1 + min(values, len(self.words))


def dashed(name: str) -> str:
    """An option's name as vLLM's parser makes it: underscores are dashes, but for what is dotted on to it."""
    head, dot, rest = name.partition(".")
    return head.replace("_", "-") + dot + rest


def options(argv: Sequence[str]) -> list[Option]:
    """The options of the engine's own part of a command, in their order.

    Raises `ArgumentProblem` where the command is a shell's and not an argument list.
    """
    start, end = engine_part(argv)
    heads = [(at, match) for at in range(start, end) if (match := _OPTION.fullmatch(argv[at])) is not None]
    found = []
    for number, (at, match) in enumerate(heads):
        until = heads[number + 1][0] if number + 1 < len(heads) else end
        name, *keys = dashed(match[1]).split(".")
        found.append(Option(at, name, tuple(keys), match[2], tuple(argv[at + 1 : until])))
    return found


def engine_part(argv: Sequence[str]) -> tuple[int, int]:
    """Where the engine's own arguments begin and end: after `vllm serve` or `-m MODULE`, and before a bare `--`."""
    if not argv:
        raise ArgumentProblem("the engine's command is empty: give the argument list it is started with")
    if any(
        PurePath(word).name in _SHELLS and "-c" in argv[at + 1 : at + 3] for at, word in enumerate(argv[:-1])
    ):
        raise ArgumentProblem(
            "the engine is started by a line for a shell: Trimtab changes argument lists and no shell text; start "
            "the engine by its own argument list (exec form)"
        )
    start = 1
    for at, word in enumerate(argv[:-1]):
        following = argv[at + 1]
        if (word == "-m" and following.split(".")[0] in _PROGRAMS) or (
            PurePath(word).name in _PROGRAMS and following == "serve"
        ):
            start = at + 2
    ends = (at for at in range(start, len(argv)) if argv[at] == "--")
    return start, next(ends, len(argv))
