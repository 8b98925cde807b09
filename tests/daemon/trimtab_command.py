"""Run a command in the test's own process, and judge what it said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any


class Told:
    """What a command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Trimtab = Callable[..., Told]


def one_line(told: Told) -> None:
    """A failure is one line on stderr and nothing on stdout."""
    assert told.out == ""
    assert re.fullmatch(r"trimtab: [^\n]+\n", told.err), told.err
