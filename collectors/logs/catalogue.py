"""The signature catalogue: what a line tells of, what is the likely cause, and which playbook is for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from collectors.logs.codes import AclCode, acl_codes, codes_in
from collectors.logs.faults import Fault, Severity, fault, fault_in, fault_table
from collectors.logs.formats import parse_line

Playbook = Literal[
    "cann_error",
    "collective_setup",
    "collective_timeout",
    "configuration",
    "cpu_binding",
    "device_held",
    "device_lost",
    "device_memory_fault",
    "device_resources",
    "disk_full",
    "engine_dead",
    "engine_stall",
    "graph_capture",
    "host_hardware",
    "host_memory",
    "installation",
    "kernel_exception",
    "kv_cache_memory",
    "network_link",
    "npu_out_of_memory",
    "port_conflict",
    "slow_start",
]
PLAYBOOKS: tuple[Playbook, ...] = get_args(Playbook)

Text = Annotated[str, Field(min_length=1, max_length=400)]

_REQUEST_ECHO = re.compile(
    r"\b(?:Received request \S{1,120}|Request \S{1,120} details): prompt: "
    r"|\bGenerated response \S{1,120}(?: \([a-z ]{1,40}\))?: output: "
    r"|\b(?:Receive|Finish)(?: OpenAI)?: obj="
    r"|\d - \"[A-Z]{3,10} /"
)
"""An engine told to log requests quotes what users wrote and what it answered, which may be anybody's log.

The forms are those of vLLM's request logger, SGLang's, and the access log of both (uvicorn).
"""
_QUIET = ("debug", "info")
_QUIET_WORD = re.compile(r"\W{0,4}(?:DEBUG|INFO)\b")


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _SignatureEntry(_Entry):
    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{2,60}$")]
    literal: Annotated[str, Field(min_length=4, max_length=120)]
    pattern: Text | None = None
    meaning: Text
    cause: Text
    playbook: Playbook
    severity: Severity
    source: Text
    broad: bool = False

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            if re.search(r"(?<!\\)[*+]|\{\d+,\}", pattern):
                raise ValueError(f"{pattern!r}: say how often at most, as in {{1,80}}")
            try:
                re.compile(pattern)
            except re.error as failure:
                raise ValueError(f"{pattern!r} is no regular expression: {failure}") from failure
        return pattern


class _CodeEntry(_Entry):
    code: int
    seen: Text | None = None
    cause: Text
    playbook: Playbook
    severity: Severity


class _File(_Entry):
    signatures: list[_SignatureEntry]
    codes: list[_CodeEntry]

    @model_validator(mode="after")
    def _sound(self) -> _File:
        ids = [entry.id for entry in self.signatures]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"twice in the catalogue: {', '.join(twice)}")
        unknown = sorted({entry.code for entry in self.codes} - set(acl_codes()))
        if unknown:
            raise ValueError(f"no ACL codes: {unknown}")
        return self


@dataclass(frozen=True, slots=True)
class Signature:
    """What is known about one kind of line; `cause` and `playbook` are None where nothing general can be said."""

    id: str
    meaning: str
    severity: Severity
    source: str
    cause: str | None = None
    playbook: Playbook | None = None


UNRECOGNISED = Signature(
    "unrecognised_error", "a line of level error that no signature knows", "error", "any log"
)
"""Errors that nothing in the catalogue explains are counted under this one."""


def _group_severity(code: int) -> Severity:
    # CANN groups its codes: 1 the caller's mistake, 2 resources, 3 storage, 5 internal.
    return "error" if code // 100_000 in (2, 5) else "warning"


def _code_signature(code: AclCode, more: _CodeEntry | None) -> Signature:
    return Signature(
        f"acl_{code.code}",
        code.meaning,
        more.severity if more else _group_severity(code.code),
        f"{code.name}, {more.seen}" if more and more.seen else code.name,
        more.cause if more else None,
        more.playbook if more else None,
    )


def fault_signature(found: Fault) -> Signature:
    """The signature of a fault event; those of which unit or kind is unknown share one, as there may be any number."""
    if found.meaning is None or not found.whole:
        return Signature("fault_event", "the device reported a fault event", "error", "device management")
    playbook: Playbook | None = "device_lost" if found.severity == "critical" else None
    return Signature(
        f"fault_{found.event_id:08x}",
        found.meaning,
        found.severity,
        "device management",
        "the part that the event names" if playbook else None,
        playbook,
    )


_Tried = tuple[str, re.Pattern[str], Signature, bool]
"""Literal, pattern, signature and whether it is a broad one."""


class Matcher:
    """Finds the signature of a line; made by `Catalogue.narrowed`."""

    def __init__(self, tried: Sequence[_Tried], codes: Mapping[int, Signature]) -> None:
        self._tried = tuple(tried)
        self._codes = codes

    def match(self, text: str) -> Signature | None:
        """The signature a line fires, or None.

        The device's fault events come first, then the catalogue in its order but for its broad entries, then ACL's
        codes (not in lines of level debug or info), then the broad entries. What an engine quotes of a request or of an
        answer fires nothing.
        """
        found = self._find(text)
        return None if found is None or _REQUEST_ECHO.search(text) else found

    def _find(self, text: str) -> Signature | None:
        event = fault_in(text)
        if event is not None:
            return fault_signature(event)
        broad: Signature | None = None
        for literal, pattern, signature, is_broad in self._tried:
            if literal in text and pattern.search(text):
                if not is_broad:
                    return signature
                broad = broad or signature
        codes = codes_in(text)
        return self._codes[codes[0]] if codes and not _is_quiet(text) else broad


def _is_quiet(text: str) -> bool:
    """Whether a line says itself that it tells of no fault: a number behind `status` there may be any number."""
    line = parse_line(text)
    return bool(_QUIET_WORD.match(text)) if line is None else line.level in _QUIET


class Catalogue:
    """Every signature, ready to be looked for.

    Lines must be bounded (`collectors.logs.line.bounded`); patterns have no unbounded repeats, so that none takes
    long on any line.
    """

    def __init__(self, source: _File) -> None:
        self.signatures: tuple[Signature, ...] = tuple(
            Signature(entry.id, entry.meaning, entry.severity, entry.source, entry.cause, entry.playbook)
            for entry in source.signatures
        )
        more = {entry.code: entry for entry in source.codes}
        self.codes: Mapping[int, Signature] = MappingProxyType(
            {code: _code_signature(known, more.get(code)) for code, known in acl_codes().items()}
        )
        self._tried: tuple[_Tried, ...] = tuple(
            (entry.literal, re.compile(entry.pattern or _whole(entry.literal)), signature, entry.broad)
            for entry, signature in zip(source.signatures, self.signatures, strict=True)
        )

    def narrowed(self, text: str) -> Matcher:
        """What finds the signatures of the lines of `text`: literals that are nowhere in it are not looked for.

        One search through many lines is far cheaper than one through each, and a flood of lines is of few kinds.
        """
        return Matcher([tried for tried in self._tried if tried[0] in text], self.codes)

    def match(self, line: str) -> Signature | None:
        """The signature that one line fires, or None."""
        return self.narrowed(line).match(line)


def _whole(literal: str) -> str:
    start = r"(?<!\w)" if literal[0].isalnum() else ""
    return start + re.escape(literal) + (r"(?!\w)" if literal[-1].isalnum() else "")


def parse_catalogue(text: str) -> Catalogue:
    """Read a catalogue's YAML; raises ValueError for one that is not sound."""
    return Catalogue(_File.model_validate(yaml.safe_load(text)))


@cache
def catalogue() -> Catalogue:
    """The catalogue that is shipped."""
    return parse_catalogue(files("collectors.logs").joinpath("signatures.yaml").read_text(encoding="utf-8"))


def known_signatures() -> Sequence[Signature]:
    """Every signature there is: the catalogue's, ACL's codes and the fault events with a meaning of their own."""
    shipped = catalogue()
    events = [fault_signature(fault(event_id)) for event_id in fault_table().special]
    return [*shipped.signatures, *shipped.codes.values(), *events, UNRECOGNISED]
