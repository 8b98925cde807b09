"""What npu-smi says instead of an answer: error texts and exit codes, as a reason and what mends it.

The codes are those of the driver's management interface; the program ends with the low byte of one.
"""

from __future__ import annotations

import re

from collectors.dcmi.codes import CODES, NOT_SUPPORTED, Failure, meaning

_RETURNED = re.compile(
    r"\b(?:ret(?:urn)?(?:\s+(?:value|code))?|err(?:or)?(?:\s+code)?)\s*(?:is|[:=])\s*(-8\d\d\d)\b"
)
_UNSUPPORTED = re.compile(r"This device does not support (?:querying|setting) ([^\n]+)")
_PARAMETER = re.compile(r"^[ \t]*((?:Invalid|Error parameter of) [^\n]+)", re.MULTILINE)
_USAGE = re.compile(r"^[ \t]*Usage: npu-smi\b", re.MULTILINE)
_LOADER = re.compile(
    r"error while loading shared libraries: (\S{1,200}?):|\b(lib\w{1,100}\.so[\w.]{0,40}): cannot open"
)


def of_code(code: int) -> Failure | None:
    """What a return code of the driver (-8005) means; None if it is none of the known."""
    return CODES.get(code)


def of_exit(code: int) -> tuple[int, Failure] | None:
    """The return code whose low byte a program's exit code is, with its meaning; None if it fits none."""
    for returned, failure in CODES.items():
        if returned & 0xFF == code:
            return returned, failure
    return None


def unsupported(text: str) -> str | None:
    """What the device cannot be asked for, if that is what the text says."""
    match = _UNSUPPORTED.search(text)
    return _plain(match[1]) if match else None


def _plain(text: str) -> str:
    return text[:120].strip(" .\r\t")


def has_no_such_query(text: str) -> bool:
    """Whether the text says that this device or this version cannot be asked that, so that asking again is vain."""
    if unsupported(text) is not None or (
        (match := _RETURNED.search(text)) and int(match[1]) == NOT_SUPPORTED
    ):
        return True
    return "Error parameter of" in text or _USAGE.search(text) is not None


def of_text(text: str) -> Failure | None:
    """The failure that an output tells of; None if it tells of none."""
    if match := _RETURNED.search(text):
        code = int(match[1])
        return Failure(f"the driver said {code}: {meaning(code).reason}", meaning(code).mend)
    if what := unsupported(text):
        return Failure(f"this device does not support querying {what}", "")
    if match := _LOADER.search(text):
        library = match[1] or match[2]
        return Failure(
            f"npu-smi cannot load {library}",
            "mount the driver (/usr/local/Ascend/driver) and set LD_LIBRARY_PATH to its lib64 folders",
        )
    if match := _PARAMETER.search(text):
        return Failure(
            f"npu-smi said: {_plain(match[1])}",
            "name what `npu-smi info -m` and `npu-smi info -h` list",
        )
    if _USAGE.search(text):
        return Failure(
            "npu-smi printed its usage", "see `npu-smi info -h` for what this version can be asked"
        )
    return None


def of_output(text: str, exit_code: int | None = None) -> Failure:
    """The failure behind an output that is no answer, in the tool's own words where no cause is known."""
    failure = of_text(text)
    if failure is not None:
        return failure
    by_exit = of_exit(exit_code) if exit_code else None
    if by_exit is not None:
        returned, failure = by_exit
        return Failure(f"exit code {exit_code}, which is {returned}: {failure.reason}", failure.mend)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return Failure("npu-smi printed nothing", "is the driver installed, and is npu-smi its own?")
    return Failure(f"npu-smi printed nothing that is known, but: {lines[0][:120]}", "")
