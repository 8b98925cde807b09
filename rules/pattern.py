"""Patterns of label matchers: a regular part of RE2's syntax, matched in time linear in the text.

Python's own `re` tries one way after the other, which a hostile pattern or label can make last for ever. Here all ways
are followed at once (Thompson's construction): nothing to guard against. Neither groups that capture nor flags but
`(?i)` at the beginning are known; what is not known is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

LONGEST_PATTERN = 256
MOST_STATES = 1000
_MOST_REPEATS = 1000
_MOST_KNOWN = 2000
"""Steps that are remembered: which states a character leads to."""

_CLASSES = {
    "d": (("0", "9"),),
    "w": (("0", "9"), ("A", "Z"), ("a", "z"), ("_", "_")),
    "s": ((" ", " "), ("\t", "\n"), ("\f", "\r")),
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

Ranges = tuple[tuple[str, str], ...]


class PatternError(ValueError):
    """The pattern is not one that is supported; the text says why."""


@dataclass(frozen=True, slots=True)
class _Letters:
    """A set of characters."""

    ranges: Ranges
    negated: bool = False

    def __contains__(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) is not self.negated


@dataclass(frozen=True, slots=True)
class _Any:
    """Every character but a line's end, as in Prometheus 2."""

    def __contains__(self, character: str) -> bool:
        return character != "\n"


Step = _Letters | _Any


@dataclass(slots=True)
class _Part:
    """A piece of the pattern as a tree: `kind` is step, then, either, repeat or edge."""

    kind: str
    parts: list[_Part] = field(default_factory=list)
    step: Step | None = None
    least: int = 0
    most: int | None = None


class Pattern:
    """A compiled pattern; it matches whole texts only. Raises `PatternError`."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_PATTERN:
            raise PatternError(f"it has {len(text)} characters, at most {LONGEST_PATTERN} are allowed")
        self.ignore_case = text.startswith("(?i)")
        reader = _Reader(text, 4 if self.ignore_case else 0)
        self._steps: list[Step | None] = []
        self._next: list[list[int]] = []
        self._end = self._state()
        self._first = self._reachable([self._build(reader.whole(), self._end)])
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, text: str) -> bool:
        """Whether the whole text is one of those that the pattern describes."""
        current = self._first
        for character in text:
            known = current, character
            found = self._known.get(known)
            if found is None:
                found = self._stepped(current, character)
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[known] = found
            if not found:
                return False
            current = found
        return self._end in current

    def _stepped(self, current: frozenset[int], character: str) -> frozenset[int]:
        forms = {character, character.lower(), character.upper()} if self.ignore_case else {character}
        return self._reachable(
            target
            for state in current
            if (step := self._steps[state]) is not None and any(form in step for form in forms)
            for target in self._next[state]
        )

    def _reachable(self, states: Iterable[int]) -> frozenset[int]:
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in found:
                continue
            found.add(state)
            if self._steps[state] is None:
                waiting.extend(self._next[state])
        return frozenset(found)

    def _state(self, step: Step | None = None, *targets: int) -> int:
        if len(self._steps) >= MOST_STATES:
            raise PatternError("its repeats are too many")
        self._steps.append(step)
        self._next.append(list(targets))
        return len(self._steps) - 1

    def _build(self, part: _Part, then: int) -> int:
        """The state at which the part begins, when it goes on to `then`."""
        if part.kind == "step":
            return self._state(part.step, then)
        if part.kind == "either":
            return self._state(None, *(self._build(one, then) for one in part.parts))
        if part.kind == "repeat":
            return self._repeated(part, then)
        for one in reversed(part.parts):
            then = self._build(one, then)
        return then

    def _repeated(self, part: _Part, then: int) -> int:
        inner = part.parts[0]
        if part.most is None:
            again = self._state(None, then)
            self._next[again].append(self._build(inner, again))
            then = again
        else:
            after = then
            for _ in range(part.most - part.least):
                then = self._state(None, self._build(inner, then), after)
        for _ in range(part.least):
            then = self._build(inner, then)
        return then


class _Reader:
    """Reads the text from left to right."""

    def __init__(self, text: str, place: int) -> None:
        self._text = text
        self._place = place
        self._depth = 0

    def whole(self) -> _Part:
        """All of it."""
        part = self._either()
        if self._place < len(self._text):
            raise PatternError(f"a ) without its ( at {self._place + 1}")
        return part

    def _peek(self) -> str:
        return self._text[self._place : self._place + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise PatternError("it ends too early")
        self._place += 1
        return character

    def _either(self) -> _Part:
        ways = [self._sequence()]
        while self._peek() == "|":
            self._place += 1
            ways.append(self._sequence())
        return ways[0] if len(ways) == 1 else _Part("either", ways)

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            if self._peek() == "^":
                if self._place > 0:
                    raise PatternError("^ stands at the beginning only: the whole value is matched anyway")
                self._place += 1
            elif self._peek() == "$":
                if self._place < len(self._text) - 1:
                    raise PatternError("$ stands at the end only: the whole value is matched anyway")
                self._place += 1
            else:
                parts.append(self._repeats(self._one()))
        return _Part("then", parts)

    def _repeats(self, part: _Part) -> _Part:
        repeated = False
        while (sign := self._peek()) in ("*", "+", "?", "{") and sign:
            bounds = self._counts() if sign == "{" else {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
            if bounds is None:
                break
            if sign != "{":
                self._place += 1
            if repeated:
                raise PatternError(f"a repeat of a repeat at {self._place}")
            repeated = True
            if self._peek() == "?":
                self._place += 1  # the same texts match, whichever way is tried first
            part = _Part("repeat", [part], least=bounds[0], most=bounds[1])
        return part

    def _counts(self) -> tuple[int, int | None] | None:
        end = self._text.find("}", self._place)
        low, comma, high = self._text[self._place + 1 : max(end, self._place)].partition(",")
        if (
            end < 0
            or not low.isascii()
            or not low.isdigit()
            or (high and not (high.isascii() and high.isdigit()))
        ):
            raise PatternError(f"a {{ that is no repeat at {self._place + 1}: write \\{{")
        least = int(low)
        most = least if not comma else (int(high) if high else None)
        if least > _MOST_REPEATS or (most is not None and not least <= most <= _MOST_REPEATS):
            raise PatternError(f"{{{low}{comma}{high}}} repeats too often, or from more to less")
        self._place = end + 1
        return least, most

    def _one(self) -> _Part:
        place = self._place
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return _Part("step", step=self._letters())
        if character == ".":
            return _Part("step", step=_Any())
        if character == "\\":
            return _Part("step", step=self._escape())
        if character in "*+?{":
            raise PatternError(f"{character} has nothing to repeat at {place + 1}")
        return _Part("step", step=_Letters(((character, character),)))

    def _group(self) -> _Part:
        if self._text.startswith("?:", self._place):
            self._place += 2
        elif self._peek() == "?":
            raise PatternError(f"(? at {self._place}: only (?: is known, and (?i) at the beginning")
        self._depth += 1
        if self._depth > 20:
            raise PatternError("more than 20 groups in one another")
        part = self._either()
        if self._peek() != ")":
            raise PatternError("a ( that is not closed")
        self._place += 1
        self._depth -= 1
        return _Part("then", [part])

    def _escape(self) -> _Letters:
        character = self._take()
        if character.lower() in _CLASSES:
            return _Letters(_CLASSES[character.lower()], negated=character.isupper())
        literal = _ESCAPES.get(character, character if character in _PUNCTUATION else None)
        if literal is None:
            raise PatternError(f"\\{character} is not supported")
        return _Letters(((literal, literal),))

    def _letters(self) -> _Letters:
        negated = self._peek() == "^"
        self._place += negated
        ranges: list[tuple[str, str]] = []
        first = True
        while first or self._peek() != "]":
            low = self._member(first)
            first = False
            if not isinstance(low, str):
                ranges.extend(low)
            elif self._peek() == "-" and self._text[self._place + 1 : self._place + 2] not in ("]", ""):
                self._place += 1
                high = self._member(False)
                if not isinstance(high, str) or high < low:
                    raise PatternError(f"a range of characters from more to less at {self._place}")
                ranges.append((low, high))
            else:
                ranges.append((low, low))
        self._place += 1
        return _Letters(tuple(ranges), negated)

    def _member(self, first: bool) -> str | Ranges:
        character = self._take()
        if character == "[" or (character == "]" and not first) or (character == "&" and self._peek() == "&"):
            raise PatternError(f"a {character} within [] at {self._place}: write \\{character}")
        if character != "\\":
            return character
        found = self._escape()
        if found.negated:
            raise PatternError("a negated class within [] is not supported")
        return (
            found.ranges
            if len(found.ranges) > 1 or found.ranges[0][0] != found.ranges[0][1]
            else found.ranges[0][0]
        )
