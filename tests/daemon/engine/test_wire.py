"""Reading the plugin's answers: what it says is read field for field, and nothing else passes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from change.engine import (
    GAP_BUCKETS,
    EngineError,
    EngineState,
    KnobAnswer,
    RequestPage,
    RequestRecord,
)
from daemon.engine.wire import read_answer, read_error, read_page, read_state
from tests.daemon.engine.plugin_server import page_json

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0, allow_infinity=False)
COUNTS = st.integers(0, 10**9)
VALUES = st.dictionaries(st.text(max_size=20), NUMBERS, max_size=5)

STATES = st.builds(
    EngineState,
    plugin=st.text(),
    engine=st.text(),
    engine_version=st.text(),
    boot_id=st.text(min_size=1),
    epoch=COUNTS,
    values=VALUES,
    ceilings=VALUES,
    floors=VALUES,
    lease_remaining_seconds=st.none() | POSITIVE,
    gate=st.sampled_from(["open", "closed"]),
    dp_ranks=st.integers(1, 64),
    api_servers=st.integers(1, 64),
    scheduler=st.text(),
    scheduler_known=st.booleans(),
    requests_inside=st.none() | COUNTS,
)
ANSWERS = st.builds(
    KnobAnswer,
    epoch=COUNTS,
    requested=VALUES,
    effective=VALUES,
    status=st.sampled_from(["applied", "draining", "refused"]),
    reason=st.none() | st.text(),
)


@st.composite
def pages(draw: st.DrawFn) -> RequestPage:
    record = st.builds(
        RequestRecord,
        seq=st.just(0),
        arrival=NUMBERS,
        first_token=st.none() | NUMBERS,
        finish=NUMBERS,
        epoch_arrival=COUNTS,
        epoch_first_token=st.none() | COUNTS,
        epoch_finish=COUNTS,
        prompt_tokens=COUNTS,
        output_tokens=COUNTS,
        cached_tokens=COUNTS,
        queued_seconds=POSITIVE,
        prefill_seconds=POSITIVE,
        decode_seconds=POSITIVE,
        preemptions=COUNTS,
        reason=st.text(),
    )
    records = draw(st.lists(record, max_size=5))
    seqs = sorted(draw(st.sets(st.integers(1, 10**9), min_size=len(records), max_size=len(records))))
    numbered = tuple(RequestRecord(**{**asdict(r), "seq": seq}) for r, seq in zip(records, seqs, strict=True))
    gaps = draw(
        st.dictionaries(
            COUNTS, st.dictionaries(st.integers(0, GAP_BUCKETS - 1), COUNTS, max_size=5), max_size=3
        )
    )
    return RequestPage(draw(NUMBERS), seqs[-1] if seqs else draw(COUNTS), draw(COUNTS), numbered, gaps)


@settings(deadline=None, max_examples=50)
@given(STATES)
def test_a_state_is_read_field_for_field(state: EngineState) -> None:
    assert read_state(json.dumps(asdict(state)).encode()) == state


@settings(deadline=None, max_examples=50)
@given(ANSWERS)
def test_an_answer_is_read_field_for_field(answer: KnobAnswer) -> None:
    assert read_answer(json.dumps(asdict(answer)).encode()) == answer


@settings(deadline=None, max_examples=50)
@given(pages())
def test_a_page_is_read_field_for_field(page: RequestPage) -> None:
    assert read_page(json.dumps(page_json(page)).encode(), 0) == page


@settings(deadline=None, max_examples=50)
@given(STATES, st.dictionaries(st.sampled_from(["dp_groups", "uptime_seconds"]), st.integers()))
def test_fields_of_a_newer_plugin_are_ignored(state: EngineState, more: dict[str, int]) -> None:
    assert read_state(json.dumps({**asdict(state), **more}).encode()) == state


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_an_answer_or_an_engine_error(body: bytes) -> None:
    for read in (read_state, read_answer, lambda b: read_page(b, 0)):
        with pytest.raises(EngineError):
            read(body)
    assert read_error(body).text.isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, max_examples=50)
@given(STATES, st.sampled_from([*EngineState.__dataclass_fields__]), JSON)
def test_a_state_with_one_field_replaced_is_read_or_refused(
    state: EngineState, name: str, value: Any
) -> None:
    body = json.dumps({**asdict(state), name: value}).encode()
    try:
        assert getattr(read_state(body), name) == value
    except EngineError as error:
        assert name in str(error) or "cannot be read" in str(error)


def test_a_plugin_that_knows_no_marks_is_understood() -> None:
    whole = _state()
    del whole["mark"]
    assert read_state(json.dumps(whole).encode()).mark is None


@pytest.mark.parametrize(
    "name", sorted({*EngineState.__dataclass_fields__} - {"mark", "options", "requests_inside"})
)
def test_a_state_without_one_of_its_fields_is_refused_by_name(name: str) -> None:
    whole = _state()
    whole.pop(name)
    with pytest.raises(EngineError, match=name):
        read_state(json.dumps(whole).encode())


def _state() -> dict[str, Any]:
    return asdict(
        EngineState(
            "0.1.0", "vllm", "0.32.0", "b", 3, {"a": 1}, {"a": 2}, {"a": 0}, None, "open", 1, 1, "s", True
        )
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"boot_id": ""}, "boot_id"),
        ({"epoch": -1}, "epoch"),
        ({"epoch": "3"}, "epoch"),
        ({"epoch": 3.5}, "epoch"),
        ({"epoch": True}, "epoch"),
        ({"gate": "ajar"}, "gate"),
        ({"dp_ranks": 0}, "ranks"),
        ({"values": {"a": "1"}}, "values"),
        ({"values": {"a": None}}, "values"),
        ({"lease_remaining_seconds": -1}, "lease_remaining_seconds"),
    ],
)
def test_a_state_that_cannot_be_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(EngineError, match=complaint):
        read_state(json.dumps({**_state(), **change}).encode())


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    body = json.dumps({**_state(), "values": {"a": 12345}}).replace("12345", number)
    with pytest.raises(EngineError, match="finite"):
        read_state(body.encode())


def _page(*seqs: int, next_since: int = 9, gaps: dict[str, dict[str, int]] | None = None) -> bytes:
    record = asdict(RequestRecord(0, 1.0, None, 2.0, 0, None, 0, 1, 0, 0, 0.0, 0.0, 0.0, 0, "stop"))
    records = [{**record, "seq": seq} for seq in seqs]
    return json.dumps(
        {"now": 2.0, "next_since": next_since, "lost": 0, "records": records, "gaps": gaps or {}}
    ).encode()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (_page(5, 5), "seq 5 comes after 5"),
        (_page(6, 5), "seq 5 comes after 6"),
        (_page(4), "seq 4 comes after 4"),
        (_page(5, 8, next_since=6), "next_since"),
        (_page(gaps={"0": {"320": 1}}), "bucket 320"),
        (_page(gaps={"0": {"-1": 1}}), "bucket -1"),
        (_page(gaps={"0": {"1": -1}}), "have -1"),
        (_page(gaps={"first": {"1": 1}}), "gaps"),
    ],
)
def test_a_page_that_cannot_be_is_refused(body: bytes, complaint: str) -> None:
    with pytest.raises(EngineError, match=complaint):
        read_page(body, since=4)
