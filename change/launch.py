"""The launch command that settings make, or why they make none: what a restart asks before it stops anything."""

from __future__ import annotations

from dataclasses import dataclass

from change.arguments import read, render, spellings_of
from change.argv import ArgumentProblem, options
from change.catalogue.index import knobs_of
from change.facts import Facts
from change.gates import known_successors, problems
from change.server import LaunchCommand, Settings
from change.versions import release

_ALWAYS_THERE = ("--help", "-h", "--version", "-v")


@dataclass(frozen=True, slots=True)
class Planned:
    """A launch command with changed settings; `command` is None if they can never start, for the `problems`."""

    command: LaunchCommand | None
    problems: tuple[str, ...]


def plan(command: LaunchCommand, settings: Settings, facts: Facts) -> Planned:
    """Write settings into a command that serves, unless something is known against them."""
    try:
        against = problems(settings, facts, around=read(command, engine=facts.engine))
        if against:
            return Planned(None, tuple(against))
        made = render(
            command, settings, engine=facts.engine, version=facts.version, installed=facts.installed
        )
        unknown = unknown_arguments(made, facts)
    except ArgumentProblem as problem:
        return Planned(None, (str(problem),))
    return Planned(None if unknown else made, tuple(unknown))


def unknown_arguments(command: LaunchCommand, facts: Facts) -> list[str]:
    """Say which arguments of a command the engine has no more, with what came after them, as after an upgrade.

    Held against the installed engine's source; where that is not known, against what the catalogue knows of the
    version. An argument that argparse takes for a short form of another one is none of them.
    """
    found = []
    for option in options(command.argv):
        if option.name in _ALWAYS_THERE:
            continue
        if facts.installed is not None:
            there = facts.installed.spellings
            short = option.name.startswith("--") and any(word.startswith(option.name) for word in there)
            # One dash and one letter may have its value glued on (-qawq, -O3).
            if option.name in there or short or (not option.name.startswith("--") and len(option.name) > 1):
                continue
            where = f"the installed {facts.engine} {facts.installed.version or ''}".strip()
        elif facts.version is not None and _is_gone(option.name, facts):
            where = f"{facts.engine} {facts.version}"
        else:
            continue
        found.append(
            f"{where} has no argument {option.name}{_after(option.name, facts)}: take it out of the command"
        )
    return list(dict.fromkeys(found))


def _is_gone(name: str, facts: Facts) -> bool:
    """Whether knobs of the catalogue have this spelling, and none of them in this version."""
    version = None if facts.version is None else release(facts.version)
    knobs = [k for k in knobs_of(facts.engine).values() if any(name in spellings_of(p) for p in k.places)]
    return bool(knobs) and not any(
        (place := knob.place(version)) is not None and name in spellings_of(place) for knob in knobs
    )


def _after(name: str, facts: Facts) -> str:
    for knob in knobs_of(facts.engine).values():
        if knob.successors and any(name in spellings_of(place) for place in knob.places):
            return known_successors(knob, facts.platform)
    return ""
