from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.engine.stamped_log import (
    NANOSECONDS,
    Line,
    Position,
    framed_lines,
    frames,
    nanoseconds,
    read_on,
    stamped_lines,
)

BASE = 1_800_000_000 * NANOSECONDS
LOGS = st.lists(st.tuples(st.integers(0, 4), st.text("ab", max_size=3)), max_size=30).map(
    lambda found: [Line(BASE + at, text) for at, text in sorted(found, key=lambda one: one[0])]
)


def written(stamp: int) -> str:
    whole = datetime.fromtimestamp(stamp // NANOSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{stamp % NANOSECONDS:09d}Z"


def frame(stream: int, payload: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


@given(LOGS, st.lists(st.integers(0, 30)))
def test_however_often_it_is_read_each_line_comes_once(log: list[Line], reads: list[int]) -> None:
    found: list[str] = []
    position: str | None = None
    for upto in [*sorted(reads), len(log)]:
        after = Position.parse(position, "run 1")
        # What the daemon gives: everything since the position's stamp, as far as it is written.
        given_now = [line for line in log[:upto] if line.stamp >= after.stamp]
        part = read_on(given_now, after)
        found += part.lines
        position = part.position
    assert found == [line.text for line in log]


@pytest.mark.parametrize(
    "text", [None, "", "x", "run 2 5 1", "run 1 -5 1", "run 1 5", "run 1 5 one", "5 1", "run 1 ٥ 1x"]
)
def test_a_position_of_another_run_or_of_none_is_the_beginning(text: str | None) -> None:
    assert Position.parse(text, "run 1") == Position("run 1")


@given(st.text(max_size=20), st.integers(0, 10**19), st.integers(0, 1000))
def test_a_position_survives_its_text(run: str, stamp: int, count: int) -> None:
    position = Position(run, stamp, count)
    assert Position.parse(str(position), run) == position


@given(st.integers(0, 4_000_000_000 * NANOSECONDS))
def test_a_stamp_keeps_its_nanoseconds(stamp: int) -> None:
    assert nanoseconds(written(stamp)) == stamp


def test_stamps_of_other_zones_and_precisions_are_the_same_instant() -> None:
    assert nanoseconds("2026-11-30T11:09:48.5+08:00") == nanoseconds("2026-11-30T03:09:48.500000000Z")
    assert nanoseconds("2026-11-30T03:09:48Z") == nanoseconds("2026-11-30T03:09:48.000000000Z")


@pytest.mark.parametrize(
    "text", ["", "INFO", "2026-13-30T03:09:48Z", "2026-11-30 03:09:48", "0001-01-01T00:00:00Z"]
)
def test_what_is_no_stamp_is_none(text: str) -> None:
    assert nanoseconds(text) is None


@given(st.text())
def test_any_text_is_read_as_a_stamp_or_refused(text: str) -> None:
    nanoseconds(text)


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=20)), max_size=10), st.integers(0, 12))
def test_frames_come_back_as_they_were_and_a_cut_one_is_left_out(
    found: list[tuple[int, bytes]], cut: int
) -> None:
    body = b"".join(frame(*one) for one in found)
    assert list(frames(body)) == found
    left = list(frames(body[: max(0, len(body) - cut)]))
    assert left == found[: len(left)]


@given(st.binary(max_size=64))
def test_any_bytes_are_frames_or_refused(body: bytes) -> None:
    try:
        list(framed_lines(body))
    except ValueError as error:
        assert "no frame" in str(error)


def test_pieces_of_a_line_are_joined_and_the_streams_kept_apart() -> None:
    body = b"".join(
        [
            frame(1, f"{written(BASE)} one ".encode()),
            frame(2, f"{written(BASE + 1)} other\n".encode()),
            frame(1, f"{written(BASE + 2)} line\n".encode()),
            frame(1, f"{written(BASE + 3)} not yet ended".encode()),
        ]
    )
    assert list(framed_lines(body)) == [Line(BASE + 1, "other"), Line(BASE + 2, "one line")]


def test_a_terminals_lines_lose_their_carriage_returns() -> None:
    text = f"{written(BASE)} one\r\n{written(BASE + 1)} two\r\n"
    assert list(stamped_lines(text)) == [Line(BASE, "one"), Line(BASE + 1, "two")]


def test_a_line_without_a_stamp_is_of_the_instant_before_it() -> None:
    assert list(stamped_lines(f"{written(BASE)} one\nrest of it\n")) == [
        Line(BASE, "one"),
        Line(BASE, "rest of it"),
    ]
