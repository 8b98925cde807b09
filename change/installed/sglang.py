"""The arguments of an installed SGLang: `add_argument` calls in older releases, annotated fields in newer ones.

The fields are ServerArgs' own at first, and of many small classes that it is put together of later (0.5.23).
"""

from __future__ import annotations

import ast

from change.installed.arguments import declared
from change.installed.engine import Argument, InstalledEngine
from change.installed.source import Field, Program, Sources, SourceUnreadable, dashed_name, keyword, strings

ARGUMENT_FILES = ("srt/server_args.py", "srt/arg_groups/**/*.py")
"""The files of the package `sglang` that declare what the server takes."""


def read_sglang(sources: Sources, *, source: str, version: str | None) -> InstalledEngine:
    """Read what the server takes; raises `SourceUnreadable` if the files hold no ServerArgs."""
    program = Program.of(sources)
    fields = [each for name in program.classes for each in program.fields(name).values()]
    arguments = (*declared(program), *(a for each in fields if (a := _annotated(program, each)) is not None))
    if "ServerArgs" not in program.classes or not arguments:
        raise SourceUnreadable(f"{source}: no ServerArgs of SGLang were found there")
    return InstalledEngine("sglang", source, version, arguments)


def _annotated(program: Program, each: Field) -> Argument | None:
    """The argument of a field that is written `name: A[type, Arg(...)]`; other fields have none by themselves."""
    match each.annotation:
        case ast.Subscript(value=ast.Name(id="A" | "Annotated"), slice=ast.Tuple(elts=[kind, *notes])):
            pass
        case _:
            return None
    spellings: tuple[str, ...] = (dashed_name(each.name),)
    choices: tuple[str, ...] = ()
    for note in notes:
        if isinstance(note, ast.Call):
            hidden = keyword(note, "no_cli")
            if isinstance(hidden, ast.Constant) and hidden.value is True:
                return None
            spellings += strings(keyword(note, "aliases"))
            choices = _choices(program, keyword(note, "choices"))
    default = None if each.default is None else ast.unparse(each.default)
    return Argument(spellings, (), not program.is_bool(kind), choices, default)


def _choices(program: Program, node: ast.expr | None) -> tuple[str, ...]:
    return strings(program.aliases.get(node.id, node) if isinstance(node, ast.Name) else node)
