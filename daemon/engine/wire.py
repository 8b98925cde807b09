"""Reading the plugin's JSON answers: pure functions from bytes to the port's types, strict on every field."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from change.engine import GAP_BUCKETS, EngineError, EngineState, KnobAnswer, RequestPage

_STATE = TypeAdapter(EngineState)
_ANSWER = TypeAdapter(KnobAnswer)
_PAGE = TypeAdapter(RequestPage)
_T = TypeVar("_T")

MAX_MARK = 64
_ERROR_CHARACTERS = 300


def read_state(body: bytes) -> EngineState:
    """Read the answer to `GET state`; raise `EngineError` for anything else than one."""
    state = _read(_STATE, body, "state")
    lease = state.lease_remaining_seconds
    _check("state", bool(state.boot_id), "boot_id is empty")
    _check("state", state.epoch >= 0, f"epoch is {state.epoch}")
    _check("state", state.dp_ranks >= 1 and state.api_servers >= 1, "there are no ranks or no API servers")
    _check(
        "state", lease is None or (math.isfinite(lease) and lease >= 0), f"lease_remaining_seconds is {lease}"
    )
    for name in ("values", "ceilings", "floors"):
        _check_values("state", name, getattr(state, name))
    mark = state.mark or ""
    _check("state", len(mark) <= MAX_MARK and mark.isprintable(), "mark is no text to show")
    _check("state", (state.requests_inside or 0) >= 0, f"requests_inside is {state.requests_inside}")
    _check("state", not state.options, "options are not the plugin's to say")
    return state


def read_answer(body: bytes) -> KnobAnswer:
    """Read the answer to `POST knobs`; raise `EngineError` for anything else than one."""
    answer = _read(_ANSWER, body, "knobs")
    _check("knobs", answer.epoch >= 0, f"epoch is {answer.epoch}")
    _check_values("knobs", "requested", answer.requested)
    _check_values("knobs", "effective", answer.effective)
    return answer


def read_page(body: bytes, since: int) -> RequestPage:
    """Read the answer to `GET requests?since=SEQ`; raise `EngineError` for anything else than one."""
    page = _read(_PAGE, body, "requests")
    _check("requests", math.isfinite(page.now), f"now is {page.now}")
    _check("requests", page.lost >= 0, f"lost is {page.lost}")
    _check("requests", page.next_since >= 0, f"next_since is {page.next_since}")
    before = since
    for record in page.records:
        _check("requests", record.seq > before, f"seq {record.seq} comes after {before}")
        before = record.seq
        times = (record.arrival, record.finish, record.first_token or 0.0)
        durations = (record.queued_seconds, record.prefill_seconds, record.decode_seconds)
        counts = (record.prompt_tokens, record.output_tokens, record.cached_tokens, record.preemptions)
        _check("requests", _finite(times) and _finite(durations), f"record {record.seq} has no finite times")
        _check("requests", min(counts) >= 0, f"record {record.seq} has a negative count")
    _check("requests", page.next_since >= before or not page.records, "next_since lies before its records")
    for epoch, counts_by_bucket in page.gaps.items():
        for bucket, count in counts_by_bucket.items():
            good = 0 <= bucket < GAP_BUCKETS and count >= 0
            _check("requests", good, f"gaps of epoch {epoch} have {count} in bucket {bucket}")
    return page


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What an error answer says; `named` if as `{"error": text}`, which a gateway in front would not."""

    text: str
    named: bool
    epoch: int | None


def read_error(body: bytes) -> ErrorAnswer:
    """Read an error answer, whatever it is."""
    text, named, epoch = body[: 4 * _ERROR_CHARACTERS].decode(errors="replace"), False, None
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        if isinstance(answer.get("error"), str):
            text, named = answer["error"], True
        found = answer.get("epoch")
        epoch = found if isinstance(found, int) and not isinstance(found, bool) else None
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return ErrorAnswer(clean[:_ERROR_CHARACTERS], named, epoch)


def _read(adapter: TypeAdapter[_T], body: bytes, what: str) -> _T:
    try:
        return adapter.validate_json(body, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"][:4])
        raise _garbage(what, f"{where or 'body'}: {first['msg'][:_ERROR_CHARACTERS]}") from error


def _check(what: str, good: bool, complaint: str) -> None:
    if not good:
        raise _garbage(what, complaint)


def _check_values(what: str, name: str, values: Mapping[str, Any]) -> None:
    _check(what, _finite(values.values()), f"{name} holds a number that is not finite")


def _finite(numbers: Iterable[float]) -> bool:
    return all(map(math.isfinite, numbers))


def _garbage(what: str, complaint: str) -> EngineError:
    return EngineError(
        f"the plugin's answer to {what} cannot be read ({complaint}): check that the plugin and this daemon "
        "have the same version"
    )
