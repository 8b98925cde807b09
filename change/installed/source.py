"""Python source as data: its classes with their fields, its aliases, and calls; nothing of it is ever run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Sources = Mapping[str, str]
"""Path inside the package, with slashes, to the text of the file."""


class SourceUnreadable(Exception):
    """The engine's source is not as any known release has it; the text says which file and what is missing."""


@dataclass(frozen=True, slots=True)
class Field:
    """One annotated field of a class."""

    name: str
    annotation: ast.expr
    default: ast.expr | None


@dataclass(slots=True)
class Program:
    """What was found over all files; of two classes of one name the later file's counts."""

    trees: dict[str, ast.Module] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    aliases: dict[str, ast.expr] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Sources) -> Program:
        """Parse every file; raises `SourceUnreadable` for one that is no Python of this release or older."""
        program = cls()
        for path, text in sources.items():
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError) as error:
                raise SourceUnreadable(
                    f"{path} is no Python source that can be read here: {error}"
                ) from error
            program.trees[path] = tree
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    program.classes[node.name] = node
            for node in tree.body:
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        program.aliases[name] = value
                    case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                        program.aliases[name] = value
        return program

    def fields(self, name: str) -> dict[str, Field]:
        """The annotated fields of a class and of its bases that are known, its own last."""
        found: dict[str, Field] = {}
        node = self.classes.get(name)
        if node is None:
            return found
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id != name:
                found |= self.fields(base.id)
        for inner in node.body:
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                found[inner.target.id] = Field(inner.target.id, inner.annotation, inner.value)
        return found

    def is_bool(self, annotation: ast.expr) -> bool:
        """Whether an annotation holds `bool`."""
        return any(isinstance(n, ast.Name) and n.id == "bool" for n in ast.walk(_resolved(annotation)))

    def words_of(self, annotation: ast.expr) -> tuple[str, ...]:
        """The words of a `Literal` that is the whole of an annotation but for None, by way of aliases."""
        match annotation:
            case ast.Name(id=name) if name in self.aliases:
                return self.words_of(self.aliases[name])
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return tuple(str(item.value) for item in items if isinstance(item, ast.Constant))
            case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
                return self.words_of(inner)
            case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
                return self.words_of(left)
        return ()


def calls(tree: ast.AST, method: str) -> Iterator[ast.Call]:
    """Every call of a method or function by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(attr=name) | ast.Name(id=name) if name == method:
                    yield node


def text_of(node: ast.expr | None) -> str | None:
    """A constant string, or None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def strings(node: ast.expr | None) -> tuple[str, ...]:
    """The constant strings of a list, tuple or set."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return ()
    return tuple(text for text in map(text_of, node.elts) if text is not None)


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """A keyword argument of a call."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def dashed_name(name: str) -> str:
    """A field's name as a flag."""
    return "--" + name.replace("_", "-")


def _resolved(annotation: ast.expr) -> ast.expr:
    """An annotation that is written as a string, as an expression."""
    text = text_of(annotation)
    if text is None:
        return annotation
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return annotation
