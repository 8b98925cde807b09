"""An expression of which every selector asks for one more label: its text, otherwise as it was written."""

from __future__ import annotations

import json

from rules.expression.expression import Expression
from rules.expression.scan import Token, scan

_LABELS_FOLLOW = frozenset(["by", "without", "on", "ignoring", "group_left", "group_right"])


def narrowed(expression: Expression, label: str, value: str) -> str:
    """The text with `label="value"` in every selector."""
    matcher = f"{label}={json.dumps(value, ensure_ascii=False)}"
    text, done = "", 0
    for position, more in _places(expression, matcher):
        text += expression.text[done:position] + more
        done = position
    return text + expression.text[done:]


def _places(expression: Expression, matcher: str) -> list[tuple[int, str]]:
    """What to put in, and where in the text."""
    tokens = scan(expression.text).tokens
    found: list[tuple[int, str]] = []
    opened: list[bool] = []  # whether this bracket, or one around it, holds labels and no expression
    for index, token in enumerate(tokens):
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text == "{":
            found.append((_end(token), matcher if following == "}" else f"{matcher},"))
        elif token.text in expression.names and following not in ("{", "(") and not any(opened):
            found.append((_end(token), f"{{{matcher}}}"))
        if token.text in ("(", "{", "["):
            before = tokens[index - 1].text.lower() if index else ""
            opened.append(token.text != "(" or before in _LABELS_FOLLOW)
        elif token.text in (")", "}", "]"):
            opened.pop()
    return found


def _end(token: Token) -> int:
    return token.position + len(token.text)
