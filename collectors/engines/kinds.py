"""Every kind of engine that can be read, and which of them a page belongs to."""

from __future__ import annotations

from typing import Literal

from collectors.engines.families import EnginePage, Kind, KindName, PageReader
from collectors.engines.mindie import MINDIE
from collectors.engines.sglang import SGLANG
from collectors.engines.vllm import VLLM
from collectors.prometheus_text import PageError

KindChoice = Literal["auto", "vllm", "sglang", "mindie"]

KINDS: dict[KindName, Kind] = {kind.name: kind for kind in (VLLM, SGLANG, MINDIE)}
_READERS = {name: PageReader(kind) for name, kind in KINDS.items()}


def kind_of(text: str) -> KindName | None:
    """Whose page it is; None if no line of any kind is on it."""
    return next((kind.name for kind in KINDS.values() if kind.is_on(text)), None)


def read_page(text: str, now: float, kind: KindChoice = "auto") -> EnginePage:
    """Canonical samples of a page of `kind`, or of the kind that the page shows itself.

    Raises PageError as `PageReader.read` does, and if the page is of no kind.
    """
    found = kind_of(text) if kind == "auto" else kind
    if found is None:
        raise PageError(f"the page has no engine's metrics ({what_to_check(kind)})")
    return _READERS[found].read(text, now)


def what_to_check(kind: KindChoice) -> str:
    """What makes an engine serve its metrics, for one kind or for all."""
    kinds = list(KINDS.values()) if kind == "auto" else [KINDS[kind]]
    return "; ".join(f"{one.title}: {one.absent}" for one in kinds)
