"""Settings in an engine's launch command: written into its arguments and environment, and read back from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from change.argv import ArgumentProblem, Option, engine_part, options
from change.catalogue.domain import Json, Numbers, Switch, Words, complaint, told, written
from change.catalogue.index import knobs_of
from change.catalogue.knob import Engine, FileKey, Flag, JsonKey, Knob, Place, Variable
from change.installed.engine import InstalledEngine
from change.json_flag import JsonFlag
from change.server import LaunchCommand, Setting, Settings
from change.versions import release


def render(
    command: LaunchCommand,
    settings: Settings,
    *,
    engine: Engine,
    version: str | None,
    installed: InstalledEngine | None = None,
    drop: Iterable[str] = (),
) -> LaunchCommand:
    """Write `settings` into a launch command and take the knobs named in `drop` out of it; the rest stays as it is.

    An argument that is there already, in whatever spelling and however often, is replaced where it stood last.
    Raises `ArgumentProblem` for a value or a knob that has no place there, for an abbreviated flag that may mean it,
    and for a command that is a shell's.
    """
    knobs = knobs_of(engine)
    for name in (*settings, *drop):
        if name not in knobs:
            raise ArgumentProblem(f"{name} is no knob of {engine}: `trimtab knobs` lists them")
    draft = _Draft(list(command.argv), dict(command.environ), known_spellings(engine, installed), installed)
    # A whole JSON object goes before its single keys, which would be lost in it.
    for name in sorted(settings, key=lambda name: not isinstance(knobs[name].domain, Json)):
        knob, value = knobs[name], settings[name]
        wrong = complaint(knob.domain, value, knob.unit)
        if wrong is not None:
            raise ArgumentProblem(f"{name} {wrong}")
        draft.write(_placed(knob, version), knob, None if value == knob.unset else value)
    for name in drop:
        draft.write(_placed(knobs[name], version), knobs[name], None)
    return LaunchCommand(tuple(draft.argv), draft.environ)


def read(command: LaunchCommand, *, engine: Engine) -> Settings:
    """Read the settings that stand in a launch command; what is not given there, or not understood, is absent.

    Options that stand twice count as they stand last. Raises `ArgumentProblem` for a command that is a shell's.
    """
    found: dict[str, Setting] = {}
    there = options(command.argv)
    known = known_spellings(engine, None)
    for knob in knobs_of(engine).values():
        for place in knob.places:
            value = _read_one(knob, place, command, there, known)
            if value is not None:
                found[knob.name] = value
    return found


def known_spellings(engine: Engine, installed: InstalledEngine | None) -> frozenset[str]:
    """Every spelling that is known to be a whole flag and no abbreviation."""
    known = {
        word for knob in knobs_of(engine).values() for place in knob.places for word in spellings_of(place)
    }
    return frozenset(known | set(installed.spellings if installed is not None else ()))


@dataclass(slots=True)
class _Draft:
    """A command while it is being changed."""

    argv: list[str]
    environ: dict[str, str]
    known: frozenset[str]
    installed: InstalledEngine | None

    def write(self, place: Place, knob: Knob, value: Setting | None) -> None:
        """Put one knob's value at its place; None takes it away."""
        match place:
            case Flag():
                self._write_flag(place, knob, value)
            case JsonKey():
                refuse_abbreviations(options(self.argv), (place.flag,), self.known, knob.name)
                document = JsonFlag.of(place.flag, options(self.argv))
                self.argv = document.put(self.argv, place, _in_json(knob, value))
            case Variable():
                if value is None:
                    self.environ.pop(place.name, None)
                elif isinstance(value, bool):
                    self.environ[place.name] = place.on if value else place.off
                else:
                    self.environ[place.name] = written(knob.domain, value)
            case FileKey():
                raise ArgumentProblem(
                    f"{knob.name} is {place.section}.{place.key} in the engine's own {place.file}, which Trimtab does "
                    "not write: change it there"
                )

    def _write_flag(self, place: Flag, knob: Knob, value: Setting | None) -> None:
        words = spellings_of(place)
        there = options(self.argv)
        refuse_abbreviations(there, words, self.known, knob.name)
        mine = [option for option in there if _is(option, words)]
        if any(option.keys for option in mine):
            raise ArgumentProblem(
                f"{knob.name} stands key by key ({place.spelling}.KEY) in the command: set keys, not the whole"
            )
        new = self._elements(place, knob, value)
        at = engine_part(self.argv)[1]
        for option in reversed(mine):
            text, length = _given(knob, option, words)
            if text is None and not isinstance(knob.domain, Switch):
                raise ArgumentProblem(
                    f"{knob.name}: {option.name} has no value in the command: mend that first"
                )
            del self.argv[option.at : option.at + length]
            at = option.at if option is mine[-1] else at - length
        self.argv[at:at] = new

    def _elements(self, place: Flag, knob: Knob, value: Setting | None) -> list[str]:
        if value is None:
            return []
        spelling = self._spelling(place)
        if isinstance(value, bool) and isinstance(knob.domain, Switch):
            return [spelling] if value else self._off(place, knob)
        if isinstance(knob.domain, Words) and knob.domain.several:
            return [spelling, *str(value).split()]
        text = written(knob.domain, value)
        return [f"{spelling}={text}"] if text.startswith("-") else [spelling, text]

    def _spelling(self, place: Flag) -> str:
        """The usual spelling, or the one that the installed engine has in its place."""
        if self.installed is None or self.installed.has(place.spelling):
            return place.spelling
        return next((word for word in place.spellings if self.installed.has(word)), place.spelling)

    def _off(self, place: Flag, knob: Knob) -> list[str]:
        argument = None if self.installed is None else self.installed.spellings.get(self._spelling(place))
        if argument is None:
            return [] if place.off is None else [place.off]
        if argument.negatives:
            return [argument.negatives[0]]
        if argument.default == "True":
            raise ArgumentProblem(
                f"{knob.name} cannot be switched off: {place.spelling} has no opposite here"
            )
        return []


def refuse_abbreviations(
    there: Iterable[Option], words: tuple[str, ...], known: frozenset[str], name: str
) -> None:
    """Raise `ArgumentProblem` if an option may be an abbreviation of one of `words`, as argparse allows."""
    for option in there:
        if option.name in known or not option.name.startswith("--"):
            continue
        whole = next((word for word in words if word.startswith(option.name)), None)
        if whole is not None:
            raise ArgumentProblem(
                f"{name}: the command has {option.name}, which may be short for {whole}: write it in full"
            )


def _placed(knob: Knob, version: str | None) -> Place:
    place = knob.place(None if version is None else release(version))
    if place is None:
        where = "has no launch argument" if not knob.places else f"does not exist in {knob.engine} {version}"
        raise ArgumentProblem(f"{knob.name} {where}")
    return place


def spellings_of(place: Place) -> tuple[str, ...]:
    """Every spelling of a place in an argument list, those that switch it off too; none for an environment variable."""
    match place:
        case Flag():
            negatives = {f"--no-{word[2:]}" for word in place.spellings if word.startswith("--")}
            return (*place.spellings, *sorted(negatives | ({place.off} if place.off else set())))
        case JsonKey():
            return (place.flag,)
    return ()


def _is(option: Option, words: tuple[str, ...]) -> bool:
    # A one-letter flag may have its value glued on: -qawq.
    return option.name in words or _glued(option, words) is not None


def _glued(option: Option, words: tuple[str, ...]) -> str | None:
    if option.name.startswith("--") or option.name in words or option.name[:2] not in words:
        return None
    return option.name[2:] or None


def _given(knob: Knob, option: Option, words: tuple[str, ...]) -> tuple[str | None, int]:
    """The text of a knob's value at one of its options, None if there is none, and how many elements both take."""
    glued = _glued(option, words)
    if glued is not None or option.attached is not None:
        return (option.attached if glued is None else glued), 1
    if isinstance(knob.domain, Switch):
        # Old engines take a word after a switch.
        word = next((word for word in option.words[:1] if word.lower() in ("true", "false")), None)
        return word, 1 if word is None else 2
    if isinstance(knob.domain, Words) and knob.domain.several:
        return " ".join(option.words) or None, 1 + len(option.words)
    return (option.words[0], 2) if option.words else (None, 1)


def _in_json(knob: Knob, value: Setting | None) -> object:
    if value is None:
        return None
    if isinstance(knob.domain, Json):
        return json.loads(str(value))
    return int(value) if isinstance(knob.domain, Numbers) and knob.domain.integer else value


def _read_one(
    knob: Knob, place: Place, command: LaunchCommand, there: list[Option], known: frozenset[str]
) -> Setting | None:
    match place:
        case Flag():
            return _read_flag(knob, place, there, known)
        case JsonKey():
            try:
                value = JsonFlag.of(place.flag, there).get(place.path)
            except ArgumentProblem:
                return None
            return _told(knob, value)
        case Variable():
            text = command.environ.get(place.name)
            if text is None:
                return None
            if isinstance(knob.domain, Switch) and text in (place.on, place.off):
                return text == place.on
            return told(knob.domain, text)
    return None


def _read_flag(knob: Knob, place: Flag, there: list[Option], known: frozenset[str]) -> Setting | None:
    words = spellings_of(place)
    try:
        refuse_abbreviations(there, words, known, knob.name)
    except ArgumentProblem:
        return None
    mine = [option for option in there if _is(option, words) and not option.keys]
    if not mine:
        return None
    last = mine[-1]
    text, _ = _given(knob, last, words)
    if isinstance(knob.domain, Switch):
        on = last.name in place.spellings
        explicit = None if text is None else told(knob.domain, text)
        return on if explicit is None else explicit == on
    return None if text is None else _valid(knob, told(knob.domain, text))


def _told(knob: Knob, value: object) -> Setting | None:
    """A value of a JSON object as the knob's own."""
    if value is None:
        return None
    if isinstance(knob.domain, Json):
        return json.dumps(value) if isinstance(value, dict | list) else None
    return _valid(knob, told(knob.domain, value if isinstance(value, str) else json.dumps(value)))


def _valid(knob: Knob, value: Setting | None) -> Setting | None:
    return None if value is None or complaint(knob.domain, value, knob.unit) is not None else value
