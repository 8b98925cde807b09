"""What is made of a pasted log, ready for JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.report import parsed_dmesg, parsed_logs

TEXT = """\
What I see since this morning:
(Worker pid=71) ERROR 02-03 04:05:06 [x.py:5] RuntimeError: ACL stream synchronize failed, error code:507014
    Solution: none

(Worker pid=72) ERROR 02-03 04:05:07 [x.py:5] RuntimeError: ACL stream synchronize failed, error code:507014
RuntimeError: NPU out of memory. Tried to allocate 1.00 KiB (NPU 0; 2.00 KiB free) [repeated 3x across cluster]
"""


def test_events_figures_and_notes() -> None:
    found = parsed_logs(TEXT)
    assert json.loads(json.dumps(found)) == found
    assert found["lines"] == 5
    assert found["formats"] == {"exception": 3, "continuation": 1}
    assert found["levels"] == {"error": 3}
    assert found["notes"] == ["line 1: no known format: What I see since this morning:"]
    assert found["error"] is None
    assert found["out_of_memory"] == [
        {
            "line_number": 6,
            "count": 3,
            "device": 0,
            "process": None,
            "pid": None,
            "requested_bytes": 1024.0,
            "capacity_bytes": None,
            "allocated_bytes": None,
            "active_bytes": None,
            "free_bytes": 2048.0,
            "reserved_bytes": None,
        }
    ]


def test_one_entry_a_signature() -> None:
    found = parsed_logs(TEXT)["events"]
    assert isinstance(found, list)
    assert [(event["signature"], event["count"], event["first_line_number"]) for event in found] == [
        ("acl_507014", 2, 2),
        ("npu_out_of_memory", 3, 6),
    ]
    first = found[0]
    assert first["codes"] == [
        {
            "code": 507014,
            "name": "ACL_ERROR_RT_AICORE_TIMEOUT",
            "meaning": "an AI core task did not end in time",
        }
    ]
    assert (first["severity"], first["playbook"]) == ("error", "kernel_exception")
    assert first["likely_cause"] == "a kernel hangs, or waits for another rank"
    assert first["first_line"]["pid"] == 71
    assert (first["cause_it_says"], first["solution_it_says"]) == (None, "none")


def test_unknown_lines_are_listed_and_the_rest_counted() -> None:
    found = parsed_logs("prose\n" * 50)
    assert isinstance(found["notes"], list)
    assert len(found["notes"]) == 21
    assert found["notes"][-1] == "30 more lines of no known format"


def test_kernel_logs_of_every_origin() -> None:
    text = (
        "[ 8123.456789] [ascend] [ERROR] [devmm] [devmm_svm_device_fault 4] <python:7,7> Vm fault failed. (devid=1)\n"
        "<3>[ 8124.456789] Out of memory: Killed process 7100 (python)\n"
        "5,99,8125456789,-;[ascend] [ERROR] [hdcdrv] [hdcdrv_send 9] <python:7,7> Session is closed.\n"
        "[Tue Feb  3 04:05:06 2026] EXT4-fs error (device sdb1): x\n"
    )
    found = parsed_dmesg(text)
    assert isinstance(found["events"], list)
    assert [event["signature"] for event in found["events"]] == [
        "device_page_fault",
        "host_out_of_memory",
        "driver_error",
        "file_system_error",
    ]
    assert found["events"][2]["first_line"]["level"] == "error"
    assert found["formats"] == {"kernel": 4}
    assert found["notes"] == []


def test_nothing_gives_nothing() -> None:
    assert parsed_logs("")["events"] == parsed_dmesg("")["events"] == []


@given(st.text())
def test_any_text_gives_json(text: str) -> None:
    json.dumps(parsed_logs(text))
    json.dumps(parsed_dmesg(text))
