"""Read playbook files: one line for each mistake, with its place and what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from rules.actions import ACTION_KINDS
from rules.playbook.action_forms import ActionForm
from rules.playbook.flow import flaws
from rules.playbook.schema import KINDS, Playbook, PlaybookFile
from rules.yaml_reading import MAX_CHARACTERS, Document, YamlMistake, dotted, parse
from rules.yaml_reading import Path as Keys

_FORMS: dict[str, type[BaseModel]] = {
    get_args(form.model_fields["kind"].annotation)[0]: form for form in get_args(get_args(ActionForm)[0])
}
_UNION_MEMBERS = {"bool", "int", "float", "str", "constrained-str", "[key]"}


class PlaybookError(Exception):
    """A playbook file cannot be used; one line for each mistake."""


def load(paths: Iterable[Path], windows: Mapping[str, float] | None = None) -> dict[str, Playbook]:
    """Read playbooks by name; `windows` are the longest `for` of the rules that name each, in seconds.

    Raises `PlaybookError`, with every mistake of every file.
    """
    playbooks: dict[str, Playbook] = {}
    where: dict[str, Path] = {}
    mistakes: list[str] = []
    for path in paths:
        try:
            found = read(_text(path), str(path), windows)
        except PlaybookError as error:
            mistakes.append(str(error))
            continue
        for name, playbook in found.items():
            if name in where:
                mistakes.append(f"{path}: playbook {name} is also in {where[name]}: rename one of them")
            where.setdefault(name, path)
            playbooks[name] = playbook
    if mistakes:
        raise PlaybookError("\n".join(mistakes))
    return playbooks


def read(text: str, name: str, windows: Mapping[str, float] | None = None) -> dict[str, Playbook]:
    """Read YAML text; `name` is what errors call it."""
    try:
        document = parse(text)
    except YamlMistake as error:
        raise PlaybookError(_line(name, error.line, str(error))) from error
    if not isinstance(document.values, dict):
        raise PlaybookError(_line(name, 1, "must be a list of playbooks under `playbooks:`"))
    try:
        file = PlaybookFile.model_validate(document.values)
    except ValidationError as error:
        lines = {_explain(mistake, document, name): None for mistake in error.errors()}
        raise PlaybookError("\n".join(lines)) from error
    return _checked(file, document, name, windows or {})


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > 4 * MAX_CHARACTERS:
            raise PlaybookError(
                f"{path}: {path.stat().st_size} bytes: at most {MAX_CHARACTERS} characters are read"
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise PlaybookError(f"{path}: no such file; see playbooks.files") from error
    except (OSError, UnicodeDecodeError) as error:
        raise PlaybookError(f"{path}: cannot be read: {error}") from error


def _checked(
    file: PlaybookFile, document: Document, name: str, windows: Mapping[str, float]
) -> dict[str, Playbook]:
    mistakes: list[str] = []
    first: dict[str, Keys] = {}
    for number, playbook in enumerate(file.playbooks):
        place: Keys = ("playbooks", number)
        if playbook.name in first:
            text = f"{playbook.name} is also the name of {dotted(first[playbook.name])}"
            mistakes.append(_told(name, document, (*place, "name"), text))
        first.setdefault(playbook.name, place)
        for flaw in flaws(playbook, windows.get(playbook.name, 0.0)):
            where: Keys = place if flaw.step is None else (*place, "steps", flaw.step)
            mistakes.append(_told(name, document, (*where, flaw.key), flaw.text))
    if mistakes:
        raise PlaybookError("\n".join(mistakes))
    return {playbook.name: playbook for playbook in file.playbooks}


def _explain(mistake: Any, document: Document, name: str) -> str:
    if mistake["type"] == "extra_forbidden":
        *above, wrong = mistake["loc"]  # whatever the key is called, it is one of the file
        path, model = _place(tuple(above))
        return _told(name, document, (*path, wrong), f"unknown key{_suggestion(str(wrong), model)}")
    path, _ = _place(mistake["loc"])
    message = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == "missing":
        return _told(name, document, path, "is missing")
    if mistake["type"] == "value_error":
        return _told(name, document, path, message)
    value = mistake["input"]
    given = f", not {str(value)[:60]!r}" if isinstance(value, str | int | float) else ""
    return _told(name, document, path, message[:1].lower() + message[1:] + given)


def _place(loc: tuple[str | int, ...]) -> tuple[Keys, type[BaseModel] | None]:
    """The keys as the file has them, without the marks of unions, and the form that stands there."""
    keys: list[str | int] = []
    model: type[BaseModel] | None = PlaybookFile
    for part in loc:
        above = keys[-1] if keys else None
        if isinstance(part, int):
            model = Playbook if above == "playbooks" else model
        elif isinstance(above, int) and part in KINDS and model is Playbook:
            model = KINDS[part]
            continue
        elif above == "act" and part in ACTION_KINDS:
            model = _FORMS[part]
            continue
        elif part in _UNION_MEMBERS or "(" in part:
            continue
        elif part == "arguments" and model is not None:
            field = model.model_fields.get(part)
            inner = None if field is None else field.annotation
            keys.append(part)
            model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None
            continue
        keys.append(part)
    return tuple(keys), model


def _suggestion(wrong: str, model: type[BaseModel] | None) -> str:
    if model is None:
        return ""
    known = [field.alias or name for name, field in model.model_fields.items()]
    near = difflib.get_close_matches(wrong, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known here: {', '.join(known) or 'none'}"


def _told(name: str, document: Document, path: Keys, text: str) -> str:
    return _line(name, document.line(path), f"{dotted(path)}: {text}")


def _line(name: str, line: int | None, message: str) -> str:
    return f"{name}:{line}: {message}" if line else f"{name}: {message}"
