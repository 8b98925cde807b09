"""The arguments that a server's source declares: by `add_argument` calls, and by the fields of its argument classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from change.installed.engine import Argument
from change.installed.source import Field, Program, calls, dashed_name, keyword, strings, text_of

_TAKES_NONE = frozenset({"store_true", "store_false", "store_const", "count", "help", "version"})


def declared(program: Program, paths: tuple[str, ...] = ()) -> Iterator[Argument]:
    """Every argument added by an `add_argument` call with its flag written out; `paths` limits the files."""
    for path, tree in program.trees.items():
        if paths and path not in paths:
            continue
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)):
            groups = _groups(function)
            for call in calls(function, "add_argument"):
                argument = _declared(program, call, groups)
                if argument is not None:
                    yield argument


def of_fields(program: Program, class_name: str) -> Iterator[Argument]:
    """One argument for each field of a class whose flags are made of its fields' names."""
    for each in program.fields(class_name).values():
        if not each.name.startswith("_") and not _is_class_variable(each):
            yield of_field(program, (dashed_name(each.name),), each)


def of_field(program: Program, spellings: tuple[str, ...], each: Field) -> Argument:
    """An argument whose kind is a field's annotation, as vLLM's `get_kwargs` makes it."""
    if program.is_bool(each.annotation):
        return Argument(spellings, negative(spellings), False, (), _source(each.default))
    return Argument(spellings, (), True, program.words_of(each.annotation), _source(each.default))


def negative(spellings: tuple[str, ...]) -> tuple[str, ...]:
    """What argparse's BooleanOptionalAction adds."""
    return tuple(f"--no-{word[2:]}" for word in spellings if word.startswith("--"))


def _declared(program: Program, call: ast.Call, groups: dict[str, str]) -> Argument | None:
    spellings = tuple(w.replace("_", "-") for w in map(text_of, call.args) if w and w.startswith("-"))
    if not spellings:
        return None
    for each in (each.value for each in call.keywords if each.arg is None):
        known = _spread(program, each, groups)
        if known is not None:
            return of_field(program, spellings, known)
        if keyword(call, "action") is None and keyword(call, "type") is None:
            return Argument(spellings, (), None)
    action = keyword(call, "action")
    default = _source(keyword(call, "default"))
    if "BooleanOptionalAction" in (_source(action) or ""):
        return Argument(spellings, negative(spellings), False, (), default)
    if text_of(action) in _TAKES_NONE:
        return Argument(spellings, (), False, (), default)
    if "StoreBoolean" in (_source(action) or ""):
        return Argument(spellings, (), None, ("true", "false"), default)
    choices = strings(keyword(call, "choices"))
    return Argument(spellings, (), True, choices, default)


def _spread(program: Program, node: ast.expr, groups: dict[str, str]) -> Field | None:
    """The field behind `**cache_kwargs["block_size"]`, also where it is spread into a dictionary with changes."""
    for inner in ast.walk(node):
        match inner:
            case ast.Subscript(value=ast.Name(id=group), slice=ast.Constant(value=str(name))) if (
                group in groups
            ):
                return program.fields(groups[group]).get(name)
    return None


def _groups(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """Which class each `x_kwargs = get_kwargs(X)` of a function is made of."""
    found = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[ast.Name(id=class_name), *_])
            ) if "get_kwargs" in ast.unparse(func):
                found[name] = class_name
    return found


def _is_class_variable(each: Field) -> bool:
    return "ClassVar" in ast.unparse(each.annotation)


def _source(node: ast.expr | None) -> str | None:
    return None if node is None else ast.unparse(node)
