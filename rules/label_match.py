"""Which label sets the matchers of a selector take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from collectors.sample import Labels
from rules.pattern import Pattern
from rules.readings import Matcher


def selecting(matchers: Sequence[Matcher]) -> Callable[[Labels], bool]:
    """The test of label sets that these matchers are; a label that is not there is the empty text."""
    return _selecting(tuple(matchers))


@lru_cache(maxsize=1024)
def _selecting(matchers: tuple[Matcher, ...]) -> Callable[[Labels], bool]:
    tests = [(matcher.label, _test(matcher)) for matcher in matchers]
    if not tests:
        return lambda labels: True

    def selected(labels: Labels) -> bool:
        given = dict(labels)
        return all(test(given.get(label, "")) for label, test in tests)

    return selected


def _test(matcher: Matcher) -> Callable[[str], bool]:
    if matcher.op == "=":
        return lambda value: value == matcher.value
    if matcher.op == "!=":
        return lambda value: value != matcher.value
    # The same few values come again and again, and to match a pattern costs more than to remember.
    found = lru_cache(maxsize=4096)(Pattern(matcher.value).matches)
    if matcher.op == "=~":
        return found
    return lambda value: not found(value)
