"""A line that means something becomes one event, with what it carries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.catalogue import catalogue
from collectors.logs.events import MAX_TEXT, Event, events_of
from collectors.logs.formats import Advice
from collectors.logs.line import lines_of


def events(text: str) -> list[Event]:
    return list(events_of(lines_of(text), catalogue()))


def test_what_a_line_carries_is_in_its_event() -> None:
    found = events(
        "(NPURayWorkerWrapper pid=71) ERROR 02-03 04:05:06 worker_base.py:581] RuntimeError: NPU out of memory. Tried "
        "to allocate 2.00 MiB (NPU 3; 30.00 GiB total capacity) [repeated 6x across cluster]\n"
        "all is well\n"
        "[ERROR] RUNTIME(71,):2026-02-03-04:05:06.700.800 [api.cc:5]88 rtSync:ErrCode=507015, desc=[aicore exception]"
    )
    assert [event.signature.id for event in found] == ["npu_out_of_memory", "acl_507015"]
    assert (found[0].count, found[0].line.process, found[0].line.pid) == (6, "NPURayWorkerWrapper", 71)
    assert found[0].memory is not None
    assert found[0].memory.requested_bytes == 2 * 2**20
    assert (found[1].count, found[1].codes, found[1].memory) == (1, (507015,), None)


def test_errors_that_nothing_explains_are_told_and_their_frames_are_not() -> None:
    found = events(
        "(EngineCore pid=7) ERROR 02-03 04:05:06 [core.py:5] something new went wrong\n"
        "(EngineCore pid=7) ERROR 02-03 04:05:06 [core.py:5] Traceback (most recent call last):\n"
        '(EngineCore pid=7) ERROR 02-03 04:05:06 [core.py:5]   File "x.py", line 4, in run\n'
        "[rank3]:[F203 04:05:06.700800900 x.cpp:5] fatal\n"
        "Error is a word in prose\n"
        "(EngineCore pid=7) WARNING 02-03 04:05:06 [core.py:5] no error yet\n"
    )
    assert [event.signature.id for event in found] == ["unrecognised_error"] * 2
    assert [event.line.text for event in found] == ["something new went wrong", "fatal"]


def test_an_error_of_the_driver_counts_at_any_priority_of_the_kernel() -> None:
    found = events(
        "<5>[ 8123.456789] [ascend] [ERROR] [hdcdrv] [hdcdrv_send 9] <python:7,7> Session is closed."
    )
    assert [(event.signature.id, event.line.level) for event in found] == [("driver_error", "error")]


def test_a_line_of_no_format_may_still_mean_something() -> None:
    (found,) = events("  dcmi model initialized failed, because the device is used. ret is -8020")
    assert (found.signature.id, found.line.format) == ("device_in_use", "text")


def test_what_cann_advises_belongs_to_its_error() -> None:
    (found,) = events(
        "EL0004: [PID: 71] 2026-02-03-04:05:06.700.800 Failed to allocate memory.\n"
        "(Worker rank=3 pid=50) ERROR 02-03 04:05:06 [x.py:5]         Possible Cause: Memory is short.\n"
        "        Solution: Close other programs.\n"
        "        Solution: Another one.\n"
        "        TraceBack (most recent call last):\n"
    )
    assert found.advice == Advice("Memory is short.", "Close other programs.")


def test_advice_far_below_belongs_to_something_else() -> None:
    (found,) = events("EL0004: x\n" + "a line\n" * 9 + "        Solution: Close other programs.\n")
    assert found.advice is None
    assert events("        Solution: Close other programs.\n") == []


def test_an_event_keeps_the_start_of_a_long_line() -> None:
    (found,) = events("RuntimeError: NPU out of memory. " + "x" * 20_000)
    assert len(found.line.text) == MAX_TEXT
    assert found.line.text.endswith("x…")


@given(st.text(alphabet=st.characters() | st.sampled_from("[]()<>:=0157EI \n")))
def test_any_text(text: str) -> None:
    events(text)
    events(f"[ERROR] HCCL(1,):2026-02-03-04:05:06.700.800 {text} ErrCode={text}")
