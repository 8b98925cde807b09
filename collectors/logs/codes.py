"""ACL's return codes and where lines name them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_SIX_DIGITS = re.compile(r"(?<![\w.])[1235]\d{5}(?![\w])")
_SPELLINGS = re.compile(
    r"(?:error[ _]?code|errcode|result|return(?:ed)?(?:[ _](?:code|value))?|ret[ _]?code|errno|\bret|status)"
    r"\s{0,4}(?:is|are|:|=|->)?\s{0,4}(?:is|:|=)?\s{0,4}[\[(\"']?$",
    re.IGNORECASE,
)
_LOOK_BACK = 32


@dataclass(frozen=True, slots=True)
class AclCode:
    """One return code of CANN's ACL (acl_base.h, error_codes/rt_error_codes.h, ge_error_codes.h)."""

    code: int
    name: str
    meaning: str


@cache
def acl_codes() -> Mapping[int, AclCode]:
    """Every known code, by number."""
    table: dict[int, AclCode] = {}
    for row in files("collectors.logs").joinpath("acl_codes.tsv").read_text(encoding="utf-8").splitlines():
        code, name, meaning = row.split("\t")
        if int(code) in table:
            raise ValueError(f"acl_codes.tsv: {code} stands twice")
        table[int(code)] = AclCode(int(code), name, meaning)
    return MappingProxyType(table)


def codes_in(text: str) -> tuple[int, ...]:
    """The ACL codes a line names, each once, in their order.

    A number counts only behind a word that says it is one: `error code:N`, `error code is N`, `ErrCode=N`,
    `runtime result = N`, `ret = N`. Six digits alone may be a process, a port or a size.
    """
    if not ("ode" in text or "esult" in text or "ret" in text or "rrno" in text or "tatus" in text):
        return ()  # cheaper than the search for numbers, and true of most lines
    known = acl_codes()
    found: dict[int, None] = {}
    for number in _SIX_DIGITS.finditer(text):
        code = int(number[0])
        before = text[max(0, number.start() - _LOOK_BACK) : number.start()]
        if code in known and _SPELLINGS.search(before):
            found[code] = None
    return tuple(found)
