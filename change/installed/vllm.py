"""The arguments of an installed vLLM, of any release from 0.6 on, and vllm-ascend's own options beside it."""

from __future__ import annotations

import ast

from change.installed.arguments import declared, of_fields
from change.installed.engine import Argument, InstalledEngine
from change.installed.source import Program, Sources, SourceUnreadable, calls, text_of

ARGUMENT_FILES = (
    "engine/arg_utils.py",
    "config.py",
    "config/*.py",
    "entrypoints/**/cli_args.py",
    "entrypoints/cli/serve.py",
)
"""The files of the package `vllm` that declare what `vllm serve` takes, over all releases."""
ASCEND_FILES = ("**/*.py",)
ASCEND_WORDS = ("additional_config", "register_quantization_config", "QUANTIZATION_METHOD")
"""Any file of the package `vllm_ascend` may read `--additional-config` or register a quantisation method; those that do
hold one of the words."""

_NOT_SERVED = ("entrypoints/cli/openai.py", "entrypoints/cli/benchmark")


def read_vllm(sources: Sources, *, source: str, version: str | None) -> InstalledEngine:
    """Read what the server takes; raises `SourceUnreadable` if the files hold no arguments of vLLM."""
    wanted = {path: text for path, text in sources.items() if not path.startswith(_NOT_SERVED)}
    program = Program.of(wanted)
    arguments = list(declared(program))
    for name in program.classes:
        if name.endswith("FrontendArgs"):
            arguments += of_fields(program, name)
    named = _merged(arguments)
    if not any("--max-num-seqs" in each.spellings for each in named):
        raise SourceUnreadable(f"{source}: no EngineArgs of vLLM were found there")
    return InstalledEngine("vllm", source, version, named)


def ascend_keys(sources: Sources) -> frozenset[str] | None:
    """The top keys that an installed vllm-ascend reads from `--additional-config`; None if none were found."""
    program = Program.of(sources)
    keys = set(program.fields("AscendConfig")) if _is_declared(program) else set()
    for tree in program.trees.values():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr="get" | "pop"), args=[key, *_]) if (
                    _is_options(owner)
                ):
                    keys |= {text} if (text := text_of(key)) is not None else set()
                case ast.Subscript(value=owner, slice=key) if _is_options(owner):
                    keys |= {text} if (text := text_of(key)) is not None else set()
                case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[owner]) if _is_options(
                    owner
                ):
                    keys |= {text} if (text := text_of(key)) is not None else set()
        for call in calls(tree, "_get_config_value"):
            keys |= {text for argument in call.args[:2] if (text := text_of(argument)) is not None}
    return frozenset(keys) or None


def ascend_quantizations(sources: Sources) -> frozenset[str] | None:
    """The quantisation methods that an installed vllm-ascend registers; None if none were found."""
    program = Program.of(sources)
    found = set()
    for tree in program.trees.values():
        for call in calls(tree, "register_quantization_config"):
            for argument in call.args[:1]:
                target = (
                    program.aliases.get(argument.id, argument) if isinstance(argument, ast.Name) else argument
                )
                text = text_of(target)
                if text is not None:
                    found.add(text)
    return frozenset(found) or None


def _is_declared(program: Program) -> bool:
    """Whether the options are the fields of a class (from 0.25 on) and not keys read one by one."""
    node = program.classes.get("AscendConfig")
    return node is not None and any("config" in ast.unparse(each) for each in node.decorator_list)


def _is_options(owner: ast.expr) -> bool:
    return ast.unparse(owner).split(".")[-1] == "additional_config"


def _merged(arguments: list[Argument]) -> tuple[Argument, ...]:
    """One argument for each set of spellings, the one that says most."""
    best: dict[tuple[str, ...], Argument] = {}
    for each in arguments:
        known = best.get(each.spellings)
        if known is None or (known.takes_value is None and each.takes_value is not None):
            best[each.spellings] = each
    return tuple(best.values())
