"""A flag whose value is one JSON object (`--additional-config`), given whole or key by key; single keys set in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from change.argv import ArgumentProblem, Option, engine_part, options
from change.catalogue.knob import JsonKey


@dataclass(frozen=True, slots=True)
class JsonFlag:
    """One such flag as it stands in a command: `whole` where its whole object is given, `dotted` for single keys.

    vLLM puts dotted keys (`--flag.a.b value`) in the place of a whole object that is given too, so a command with
    both is refused and not guessed at.
    """

    flag: str
    whole: tuple[Option, ...]
    dotted: tuple[Option, ...]
    document: dict[str, Any]

    @classmethod
    def of(cls, flag: str, there: Iterable[Option]) -> JsonFlag:
        """Find a flag among a command's options; raises `ArgumentProblem` where it cannot be understood."""
        mine = [option for option in there if option.name == flag]
        whole = tuple(option for option in mine if not option.keys)
        dotted = tuple(option for option in mine if option.keys)
        if whole and dotted:
            raise ArgumentProblem(
                f"the command gives {flag} whole and key by key ({flag}.KEY): of two ways the engine takes one; give "
                "it once"
            )
        document: dict[str, Any] = {}
        if whole:
            document = _object(flag, whole[-1].text)
        for option in dotted:
            _set(document, option.keys, _value(flag, option), flag)
        return cls(flag, whole, dotted, document)

    def get(self, path: tuple[str, ...]) -> Any:
        """What stands at a path; None if nothing does."""
        found: Any = self.document
        for key in path:
            if not isinstance(found, dict) or key not in found:
                return None
            found = found[key]
        return found

    def put(self, argv: list[str], place: JsonKey, value: object) -> list[str]:
        """The argument list with `value` at a key, and beside it what the key needs; None takes the key away."""
        if value is not None:
            for path, needed in place.beside.items():
                there = self.get(path)
                if there is not None and there != needed:
                    raise ArgumentProblem(
                        f"{self.flag} holds {'.'.join(path)} = {there!r} already, and {'.'.join(place.path)} needs "
                        f"{needed!r}: one engine has one connector"
                    )
        elif self.get(place.path) is None:
            return argv
        wanted: dict[tuple[str, ...], object] = {place.path: value}
        if value is not None:
            wanted |= {path: needed for path, needed in place.beside.items() if self.get(path) is None}
        if not self.dotted:
            return self._whole(argv, wanted)
        for path, each in wanted.items():
            argv = JsonFlag.of(self.flag, options(argv))._dotted(argv, path, each)
        return argv

    def _whole(self, argv: list[str], wanted: dict[tuple[str, ...], object]) -> list[str]:
        document = copy.deepcopy(self.document)
        for path, value in wanted.items():
            _set(document, path, value, self.flag)
        argv = list(argv)
        at = engine_part(argv)[1]
        for option in reversed(self.whole):
            length = option.length(1)
            del argv[option.at : option.at + length]
            at = option.at if option is self.whole[-1] else at - length
        argv[at:at] = [self.flag, json.dumps(document)] if document else []
        return argv

    def _dotted(self, argv: list[str], path: tuple[str, ...], value: object) -> list[str]:
        for option in self.dotted:
            if len(option.keys) < len(path) and path[: len(option.keys)] == option.keys:
                raise ArgumentProblem(
                    f"the command gives {self.flag}.{'.'.join(option.keys)} as an object: give it key by key"
                )
        argv = list(argv)
        mine = [option for option in self.dotted if option.keys[: len(path)] == path]
        for option in reversed(mine):
            del argv[option.at : option.at + option.length(1)]
        at = mine[0].at if mine else engine_part(argv)[1]
        if value is not None:
            argv[at:at] = [f"{self.flag}.{'.'.join(path)}", _plain(value)]
        return argv


def _plain(value: object) -> str:
    """A value after a dotted key: words as they are, unless they would be read as something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return json.dumps(value)


def _object(flag: str, text: str | None) -> dict[str, Any]:
    try:
        document = json.loads(text or "")
    except ValueError as error:
        raise ArgumentProblem(
            f"{flag} holds no JSON in the command ({error}): mend the command first"
        ) from error
    if not isinstance(document, dict):
        raise ArgumentProblem(
            f"{flag} holds {type(document).__name__} in the command: expected a JSON object"
        )
    return document


def _value(flag: str, option: Option) -> Any:
    text = option.text
    if text is None:
        raise ArgumentProblem(
            f"{flag}.{'.'.join(option.keys)} has no value in the command: mend the command first"
        )
    try:
        return json.loads(text)
    except ValueError:
        return text


def _set(document: dict[str, Any], path: tuple[str, ...], value: object, flag: str) -> None:
    *parents, leaf = path
    inner = document
    for key in parents:
        if value is None and key not in inner:
            return
        below = inner.setdefault(key, {})
        if not isinstance(below, dict):
            raise ArgumentProblem(f"{flag} holds {key} = {below!r} in the command: expected an object there")
        inner = below
    if value is None:
        inner.pop(leaf, None)
    else:
        inner[leaf] = value
