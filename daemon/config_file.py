"""Read the configuration file: one line for each mistake, with its place and what was meant."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from daemon.config import Config, known_keys, section_of
from daemon.errors import ConfigError
from daemon.sections.base import Section
from rules.yaml_reading import Document, YamlMistake, dotted, parse


def load(path: Path | None) -> Config:
    """Read the file at `path` (None: the defaults).

    Raises `ConfigError` with one line for each mistake: file, line, key, what is wrong and what was meant.
    """
    if path is None:
        return Config()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; name another with -c") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return read(text, str(path))


def read(text: str, name: str) -> Config:
    """Read YAML text; `name` is what errors call it."""
    try:
        document = parse(text)
    except YamlMistake as error:
        raise ConfigError(_line(name, error.line, str(error))) from error
    values = {} if document.values is None else document.values
    if not isinstance(values, dict):
        raise ConfigError(_line(name, 1, "must be keys and values, as in `mode: observe`"))
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        mistakes = [_explain(mistake, document, name) for mistake in error.errors()]
        raise ConfigError("\n".join(dict.fromkeys(mistakes))) from error


def _explain(mistake: Any, document: Document, name: str) -> str:
    path: tuple[str | int, ...] = tuple(mistake["loc"])
    if mistake["type"] == "extra_forbidden":
        return _line(name, document.line(path), f"{dotted(path)}: unknown key{_suggestion(path)}")
    message = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == "value_error":
        # Our own words: they show the value where that is safe, and an address may hold a password.
        return _line(name, document.line(path), f"{dotted(path)}: {message}" if path else message)
    value = mistake["input"]
    given = f", not {value!r}" if isinstance(value, str | int | float) else ""
    message = message[:1].lower() + message[1:] + given
    return _line(name, document.line(path), f"{dotted(path)}: {message}")


def _suggestion(path: tuple[str | int, ...]) -> str:
    model = _model_at(path[:-1])
    if model is None:
        return ""
    wrong = str(path[-1])
    near = difflib.get_close_matches(wrong, list(model.model_fields), n=1)
    if near:
        return f"; did you mean {dotted((*path[:-1], near[0]))}?"
    # The canary repeats the engine's keys: the engine's own are what is meant.
    known_ones = [known for known in known_keys() if not known.startswith("tune.canary.")]
    elsewhere = [known for known in known_ones if known.rsplit(".", 1)[-1] == wrong]
    if 0 < len(elsewhere) <= 2:
        return f"; did you mean {' or '.join(elsewhere)}?"
    return f"; known here: {', '.join(sorted(model.model_fields))}"


def _model_at(path: tuple[str | int, ...]) -> type[Section] | None:
    model: type[Section] = Config
    for part in path:
        if isinstance(part, int):  # which section of a list: all are alike
            continue
        field = model.model_fields.get(str(part))
        section = None if field is None else section_of(field.annotation)
        if section is None:
            return None
        model = section
    return model


def _line(name: str, line: int | None, message: str) -> str:
    return f"{name}:{line}: {message}" if line else f"{name}: {message}"
