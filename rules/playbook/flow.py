"""What is wrong with the way through a playbook, seen before anything walks it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from collectors.metrics import METRICS
from rules.playbook.schema import ENDS, Act, Capture, Check, Diagnose, Playbook, Step, Verify, names_of

ALERT_LABELS = frozenset({"alertname", "severity", "instance", "job", "reason"}).union(
    *(metric.labels for metric in METRICS.values())
)
"""Labels that an alert may carry: of the canonical metrics, and those that every alert has."""


_Carried = Callable[[Step, str, bool], bool]
"""What a walk carries on over one way out of a step."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """A mistake: the step (None: the playbook as a whole), the key, and what is wrong."""

    step: int | None
    key: str
    text: str


def ways(playbook: Playbook, step: Step) -> Iterator[tuple[str, str]]:
    """The ways out of a step: key and where it leads."""
    after = playbook.after(step)
    match step:
        case Check() | Verify():
            yield "yes", step.yes or after
            yield "no", step.no
            yield "unknown", step.unknown or step.no
        case Capture():
            yield "then", step.then or after
            yield "failed", step.failed or step.then or after
        case Diagnose():
            yield "then", step.then or after
        case Act():
            yield "then", step.then or after
            yield "failed", step.failed


def way(playbook: Playbook, step: Step, key: str) -> str:
    """Where one way out of a step leads."""
    return dict(ways(playbook, step))[key]


def flaws(playbook: Playbook, window_seconds: float = 0.0) -> list[Flaw]:
    """Everything wrong with a playbook whose steps are well formed; `window_seconds` is its alert's longest `for`."""
    found = [*_names(playbook), *_gotos(playbook)]
    if not found:  # without a whole graph the rest would only repeat it
        found = [*_reached(playbook), *_verified(playbook), *_loops(playbook)]
    return [*found, *_variables(playbook), *_rests(playbook, window_seconds)]


def _names(playbook: Playbook) -> Iterator[Flaw]:
    first: dict[str, int] = {}
    for number, step in enumerate(playbook.steps):
        if step.name in ENDS:
            yield Flaw(number, "name", f"{step.name} is an end: give the step another name")
        elif step.name in first:
            yield Flaw(number, "name", f"{step.name} is also the name of steps[{first[step.name]}]")
        first.setdefault(step.name, number)


def _gotos(playbook: Playbook) -> Iterator[Flaw]:
    names = [step.name for step in playbook.steps]
    for number, step in enumerate(playbook.steps):
        for key, target in ways(playbook, step):
            unset = key == "unknown" and getattr(step, key) is None
            if target not in names and target not in ENDS and not unset:
                near = difflib.get_close_matches(target, [*names, *ENDS], n=1)
                meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
                yield Flaw(number, key, f"there is no step {target}{meant}")


def _reached(playbook: Playbook) -> Iterator[Flaw]:
    reached = _reachable(playbook, {(playbook.steps[0].name, False)}, lambda _step, _key, seen: seen)
    for number, step in enumerate(playbook.steps):
        if not any(name == step.name for name, _ in reached):
            yield Flaw(number, "name", f"nothing leads to {step.name}: name it in a branch, or take it out")


def _verified(playbook: Playbook) -> Iterator[Flaw]:
    """No way to a verification without an act before it, none from an act to success without one after it."""

    def acted(step: Step, _key: str, before: bool) -> bool:
        return before or isinstance(step, Act)

    def unverified(step: Step, key: str, before: bool) -> bool:
        if isinstance(step, Act) and key == "then" and step.act.kind != "notify":
            return True
        return before and not (isinstance(step, Verify) and key == "yes")

    start = {(playbook.steps[0].name, False)}
    idle = {name for name, before in _reachable(playbook, start, acted) if not before}
    open_ = {name for name, before in _reachable(playbook, start, unverified) if before}
    for number, step in enumerate(playbook.steps):
        if isinstance(step, Verify) and step.name in idle:
            yield Flaw(number, "verify", "a way leads here without an act: use check, or act first")
        for key, target in ways(playbook, step):
            before = {True} if step.name in open_ else set()
            if step.name in {name for name, dirty in _reachable(playbook, start, unverified) if not dirty}:
                before.add(False)
            if target == "end:succeeded" and any(unverified(step, key, state) for state in before):
                yield Flaw(
                    number, key, "ends succeeded after an act that no step has verified: verify it first"
                )


def _reachable(playbook: Playbook, start: set[tuple[str, bool]], carried: _Carried) -> set[tuple[str, bool]]:
    reached, todo = set(start), list(start)
    while todo:
        name, state = todo.pop()
        step = playbook.steps[playbook.index[name]]
        for key, target in ways(playbook, step):
            after = (target, carried(step, key, state))
            if target in playbook.index and after not in reached:
                reached.add(after)
                todo.append(after)
    return reached


def _loops(playbook: Playbook) -> Iterator[Flaw]:
    """A way round over steps that take no time would go round within one look at the readings."""
    quick = {
        step.name: [target for _, target in ways(playbook, step)]
        for step in playbook.steps
        if isinstance(step, Diagnose) or (isinstance(step, Check) and step.within == 0.0)
    }
    for number, step in enumerate(playbook.steps):
        seen, todo = set[str](), list(quick.get(step.name, ()))
        while todo:
            name = todo.pop()
            if name == step.name:
                yield Flaw(
                    number, "name", f"{name} leads back to itself without waiting: give a check `within`"
                )
                return
            if name in quick and name not in seen:
                seen.add(name)
                todo += quick[name]


def _variables(playbook: Playbook) -> Iterator[Flaw]:
    known = ALERT_LABELS | set(playbook.variables)
    for number, step in enumerate(playbook.steps):
        kind = type(step).__name__.lower()
        for name in sorted(names_of(step) - known):
            near = difflib.get_close_matches(name, sorted(known), n=1)
            meant = f"; did you mean ${{{near[0]}}}?" if near else ""
            yield Flaw(
                number, kind, f"${{{name}}} is neither in `variables` nor a label that alerts carry{meant}"
            )


def _rests(playbook: Playbook, window_seconds: float) -> Iterator[Flaw]:
    least = window_seconds + playbook.verify_seconds
    if playbook.cooldown < least and not playbook.urgent:
        yield Flaw(
            None,
            "cooldown",
            f"{playbook.cooldown:g} s is too short: its alert's `for` ({window_seconds:g} s) and its verification "
            f"({playbook.verify_seconds:g} s) take {least:g} s",
        )
