"""The stream's lines are bounded, wherever the pieces they come in begin and end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.npu_smi.stream import MAX_LINE_BYTES, MAX_SAID_BYTES, WatchStream
from tests.collectors.programs import alive, program, wait_until

HEADER = b"NpuID(Idx)  Pwr(W)\n"


def fed(*pieces: bytes) -> WatchStream:
    """A stream that got its output in these pieces."""
    stream = WatchStream(["npu-smi"], lambda: 1.0)

    async def feed() -> None:
        reader = asyncio.StreamReader()
        following = asyncio.create_task(stream._rows(reader))
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        reader.feed_eof()
        await following

    asyncio.run(feed())
    return stream


def watts(stream: WatchStream) -> list[float | None]:
    return [row.values["power_watts"] for row, _ in stream.rows.values()]


@given(st.lists(st.integers(1, 40), max_size=5))
@settings(max_examples=30)
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    text = HEADER + b"0 90.1\n1 91.2\n"
    pieces, left = [], text
    for cut in cuts:
        pieces.append(left[:cut])
        left = left[cut:]
    assert watts(fed(*pieces, left)) == [90.1, 91.2]


def test_the_rest_of_a_line_that_was_too_long_is_no_row() -> None:
    stream = fed(HEADER, b"x" * (MAX_LINE_BYTES + 1), b"0 99.9\n1 91.2\n")
    assert watts(stream) == [91.2]
    assert stream.notes == (f"a line over {MAX_LINE_BYTES} bytes",)


def test_a_last_line_without_its_end_is_no_row() -> None:
    assert watts(fed(HEADER, b"0 90.1\n1 9")) == [90.1]


def test_what_is_said_before_the_header_is_kept_in_part() -> None:
    stream = fed(*[b"x" * 100 + b"\n"] * 1000, HEADER, b"0 90.1\nnot said\n")
    assert len(stream.said) == MAX_SAID_BYTES
    assert "not said" not in stream.said


def test_what_the_program_started_ends_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        body = f"sleep 60 >&- 2>&- & echo $! > {tmp_path}/child; echo 'NpuID(Idx)  Pwr(W)'; echo '0 90.1'"
        stream = WatchStream([program(tmp_path, body)], lambda: 1.0)
        await stream.start()
        await asyncio.to_thread(wait_until, lambda: stream.ended)
        await stream.stop()

    asyncio.run(story())
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not alive(child))


def test_what_is_said_on_stderr_is_kept_with_the_exit_code(tmp_path: Path) -> None:
    async def story() -> WatchStream:
        stream = WatchStream([program(tmp_path, "echo out; echo err >&2; exit 3")], lambda: 1.0)
        await stream.start()
        async with asyncio.timeout(10):
            await stream.moved.wait()
        await stream.stop()
        return stream

    stream = asyncio.run(story())
    assert (stream.ended, stream.code, set(stream.said.split())) == (True, 3, {"out", "err"})
