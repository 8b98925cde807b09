"""A look at the text before the parser gets it: bounds, and what Prometheus 2 would not take.

The parser tells no positions, so that the tokens found here are also what messages point at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rules.expression.errors import ExpressionError
from rules.expression.limits import DEEPEST_BRACKETS, LONGEST_TEXT_BYTES, MOST_OPERATORS

_UNIT = r"(?:ms|[smhdwy])"
_TOKEN = re.compile(
    rf"""
    (?P<space>[ \t\r\n]+|\#[^\n]*)
    |(?P<text>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'|`[^`]*`)
    |(?P<duration>\d+{_UNIT}(?:\d+{_UNIT})*(?![A-Za-z0-9_]))
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<sign>=~|!~|==|!=|<=|>=|[-+*/%^<>=,@(){{}}\[\]])
    """,
    re.VERBOSE,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}
_OPERATORS = frozenset(
    ["+", "-", "*", "/", "%", "^", "==", "!=", ">", "<", ">=", "<=", "and", "or", "unless", "atan2"]
)
_MATCHES = frozenset(["=", "!=", "=~", "!~"])


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; `position` counts characters from 0."""

    kind: str
    text: str
    position: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """A text within bounds, with its tokens."""

    text: str
    tokens: tuple[Token, ...]

    def error(self, problem: str, *words: str) -> ExpressionError:
        """The error that points at the first of `words` (in any case of letters) in the text."""
        wanted = {word.lower() for word in words}
        found = next((token.position for token in self.tokens if token.text.lower() in wanted), None)
        return ExpressionError(problem, self.text, found)


def scan(text: str) -> Scanned:
    """Take the text apart; raises `ExpressionError` for what is out of bounds or not written as Prometheus 2 does."""
    if len(text) > LONGEST_TEXT_BYTES or len(text.encode(errors="replace")) > LONGEST_TEXT_BYTES:
        raise ExpressionError(
            f"an expression has at most {LONGEST_TEXT_BYTES} bytes, this has {len(text)} characters"
        )
    if not text.strip():
        raise ExpressionError("the expression is empty")
    tokens = tuple(_tokens(text))
    _check(text, tokens)
    return Scanned(text, tokens)


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            what = (
                "text without its closing quote" if text[position] in "\"'`" else "a character out of place"
            )
            raise ExpressionError(what, text, position)
        if found.lastgroup != "space":
            yield Token(str(found.lastgroup), found[0], position)
        position = found.end()


def _check(text: str, tokens: tuple[Token, ...]) -> None:
    opened: list[Token] = []
    operators = 0
    before = ["", ""]
    for token in tokens:
        word = token.text
        inside = opened[-1].text if opened else ""
        if word in ("(", "[", "{"):
            opened.append(token)
            if len(opened) > DEEPEST_BRACKETS:
                raise ExpressionError(
                    f"more than {DEEPEST_BRACKETS} brackets in one another", text, token.position
                )
        elif word in _CLOSES:
            if inside != _CLOSES[word]:
                raise ExpressionError(f"{word!r} closes nothing", text, token.position)
            opened.pop()
        elif token.kind == "text":
            _check_text(text, token, before[-1], inside)
        elif inside == "[":
            if word.startswith(":"):
                raise ExpressionError("subqueries are not supported", text, token.position)
            if token.kind == "number":
                raise ExpressionError("a range needs a unit, as in [5m]", text, token.position)
        elif token.kind == "duration" and "offset" not in (before[-1].lower(), before[-2].lower()):
            raise ExpressionError("a duration is not a number here: write seconds", text, token.position)
        elif inside != "{" and word.lower() in _OPERATORS:
            operators += 1
            if operators > MOST_OPERATORS:
                raise ExpressionError(f"more than {MOST_OPERATORS} operators", text, token.position)
        before = [before[-1], word]
    if opened:
        raise ExpressionError(f"{opened[-1].text!r} is not closed", text, opened[-1].position)


def _check_text(text: str, token: Token, before: str, inside: str) -> None:
    if inside != "{" or before not in _MATCHES:
        raise ExpressionError("text belongs after = != =~ or !~ in braces only", text, token.position)
    if token.text[0] == "`" and "\\" in token.text:
        raise ExpressionError(
            "a backslash in backquotes is not supported: use double quotes", text, token.position
        )
    if any(character < " " or character == "\x7f" for character in token.text):
        raise ExpressionError("a control character in a text", text, token.position)
    if any("\ud800" <= character <= "\udfff" for character in token.text):
        raise ExpressionError("half a character in a text", text, token.position)
