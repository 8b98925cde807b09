"""Each format becomes one kind of line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.formats import continues, parse_line
from collectors.logs.line import Line, bounded

STAMP = "2026-02-03-04:05:06.700.800"
CASES = {
    "plog with a process": (
        f"[ERROR] HCCL(71,python3.10):{STAMP} [op_base.cc:434][88][Init]errNo[0x5] setup error",
        Line(
            "plog",
            "[Init]errNo[0x5] setup error",
            "error",
            STAMP,
            "HCCL",
            71,
            "python3.10",
            origin="op_base.cc:434",
        ),
    ),
    "plog with a blank before the thread": (
        f"[INFO] HCCL(71,python):{STAMP} [externalinput.cc:407] [88]HCCL_CONNECT_TIMEOUT set",
        Line(
            "plog",
            "HCCL_CONNECT_TIMEOUT set",
            "info",
            STAMP,
            "HCCL",
            71,
            "python",
            origin="externalinput.cc:407",
        ),
    ),
    "plog, newer, with a glued thread": (
        f"[ERROR] RUNTIME(71,):{STAMP} [api_error.cc:2698]88 DeviceSynchronize:failed.",
        Line("plog", "DeviceSynchronize:failed.", "error", STAMP, "RUNTIME", 71, origin="api_error.cc:2698"),
    ),
    "plog without a source file": (
        f"[ERROR] APP(71,):{STAMP} 88 THPModule_npu_shutdown:x.cpp:126: failed",
        Line("plog", "THPModule_npu_shutdown:x.cpp:126: failed", "error", STAMP, "APP", 71),
    ),
    "plog with a status": (
        f"[TRACE] HCCL(71,python):{STAMP} [status:init] [hcom.cc:196][hccl-71][3]hcom init",
        Line("plog", "[hccl-71][3]hcom init", "debug", STAMP, "HCCL", 71, "python", origin="hcom.cc:196"),
    ),
    "device log with a kernel's line": (
        f"[EVENT] KERNEL(55,sklogd):{STAMP} [klogd.c:253][251681.794072] [ascend] [ERROR] [tsdrv] "
        "[tsdrv_cb 319] <swapper/3:0> receive ts exception msg",
        Line(
            "plog", "receive ts exception msg", "error", STAMP, "tsdrv", 55, "sklogd", origin="tsdrv_cb:319"
        ),
    ),
    "torch_npu": (
        "[ERROR] 2026-02-03-04:05:06 (PID:71, Device:2, RankID:-1) ERR00100 PTA call acl api failed",
        Line(
            "torch_npu", "ERR00100 PTA call acl api failed", "error", "2026-02-03-04:05:06", pid=71, device=2
        ),
    ),
    "CANN": (
        f"EL0004: [PID: 71] {STAMP} Failed to allocate memory.",
        Line("cann", "Failed to allocate memory.", "error", STAMP, "EL0004", 71),
    ),
    "CANN's first line": ("EZ9999: Inner Error!", Line("cann", "Inner Error!", "error", module="EZ9999")),
    "CANN without a code in front": (
        f"[PID: 71] {STAMP} Device_Absent/Abnormal(EL0001): Device not found.",
        Line("cann", "Device_Absent/Abnormal(EL0001): Device not found.", "error", STAMP, pid=71),
    ),
    "vLLM": (
        "(Worker_TP1 pid=71) ERROR 02-03 04:05:06 [multiproc_executor.py:822] RuntimeError: failed",
        Line(
            "exception",
            "failed",
            "error",
            "02-03 04:05:06",
            module="RuntimeError",
            pid=71,
            process="Worker_TP1",
            origin="multiproc_executor.py:822",
        ),
    ),
    "vLLM, older": (
        "(NPURayWorkerWrapper pid=71) WARNING 02-03 04:05:06 worker_base.py:581] slow",
        Line(
            "engine",
            "slow",
            "warning",
            "02-03 04:05:06",
            pid=71,
            process="NPURayWorkerWrapper",
            origin="worker_base.py:581",
        ),
    ),
    "torch_npu within vLLM": (
        "ERROR 02-03 04:05:06 [engine.py:458] [ERROR] 2026-02-03-04:05:05 (PID:71, Device:0, RankID:4) ERR02200 DIST",
        Line(
            "torch_npu",
            "ERR02200 DIST",
            "error",
            "2026-02-03-04:05:05",
            pid=71,
            device=0,
            rank=4,
            origin="engine.py:458",
        ),
    ),
    "torch with a rank": (
        "[rank7]:[E203 04:05:06.700800900 compiler_depend.ts:429] operator(): failed",
        Line(
            "glog",
            "operator(): failed",
            "error",
            "203 04:05:06.700800900",
            rank=7,
            origin="compiler_depend.ts:429",
        ),
    ),
    "kubernetes": (
        "E0203 04:05:06.700800       1 reschedule.go:533]    Failed",
        Line("glog", "Failed", "error", "0203 04:05:06.700800", pid=1, origin="reschedule.go:533"),
    ),
    "SGLang": (
        "[2026-02-03 04:05:06 DP0 TP3] Decode batch. #running-req: 4",
        Line("sglang", "Decode batch. #running-req: 4", stamp="2026-02-03 04:05:06", process="DP0 TP3"),
    ),
    "MindIE": (
        "[2026-02-03 04:05:06.700+08:00] [71] [88] [server] [ERROR] [llm.cpp:230] : MIE1AE failed.",
        Line(
            "mindie", "MIE1AE failed.", "error", "2026-02-03 04:05:06.700+08:00", pid=71, origin="llm.cpp:230"
        ),
    ),
    "hardware services": (
        "[WARN]     2026/02/03 04:05:06.700800 9       monitoring/manager.go:81    send heartbeat: 5",
        Line(
            "mindx",
            "send heartbeat: 5",
            "warning",
            "2026/02/03 04:05:06.700800",
            origin="monitoring/manager.go:81",
        ),
    ),
    "Python": (
        "2026-02-03 04:05:06,700 - INFO - device_id: 0",
        Line("python", "device_id: 0", "info", "2026-02-03 04:05:06,700"),
    ),
    "motor": (
        "2026-02-03 04:05:06  [INFO][root][logger.py:170][proc:MainProcess]  saved",
        Line(
            "motor",
            "saved",
            "info",
            "2026-02-03 04:05:06",
            "root",
            process="MainProcess",
            origin="logger.py:170",
        ),
    ),
    "sysmonitor": (
        "2026-02-03T04:05:06.700800+00:00|warning|sysmonitor[71]: monitor cmd",
        Line(
            "sysmonitor",
            "monitor cmd",
            "warning",
            "2026-02-03T04:05:06.700800+00:00",
            pid=71,
            process="sysmonitor",
        ),
    ),
    "a kernel's line": (
        "[ 8123.456789] NMI watchdog: enabled",
        Line("kernel", "NMI watchdog: enabled", stamp="8123.456789"),
    ),
    "uvicorn": (
        "INFO:     Started server process [71]",
        Line("uvicorn", "Started server process [71]", "info"),
    ),
    "an exception": (
        "torch.OutOfMemoryError: NPU out of memory.",
        Line("exception", "NPU out of memory.", "error", module="torch.OutOfMemoryError"),
    ),
    "a warning of Python": (
        "site-packages/vllm/x.py:24: DeprecationWarning: `x` is old",
        Line(
            "warning",
            "`x` is old",
            "warning",
            module="DeprecationWarning",
            origin="site-packages/vllm/x.py:24",
        ),
    ),
    "history of the device": (
        "[2026-02-03-04:05:06.700800] system exception code [0xB4060001]: ModuleName [TS]",
        Line(
            "device_history",
            "system exception code [0xB4060001]: ModuleName [TS]",
            None,
            "2026-02-03-04:05:06.700800",
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_format(name: str) -> None:
    raw, line = CASES[name]
    assert parse_line(raw) == line


@pytest.mark.parametrize("name", CASES)
def test_a_cut_line_is_read_in_part_or_not_at_all(name: str) -> None:
    raw, line = CASES[name]
    for length in range(len(raw)):
        part = parse_line(raw[:length])
        assert part is None or part.pid in (None, line.pid) or str(line.pid).startswith(str(part.pid))


@pytest.mark.parametrize(
    "raw", ["", "Triton is installed.", "## a heading", "[notice] x", "(Worker pid=1)", "<4>x"]
)
def test_prose_is_no_known_format(raw: str) -> None:
    assert parse_line(raw) is None


@pytest.mark.parametrize(
    ("raw", "inner"),
    [
        ("", True),
        ("        Solution: close applications", True),
        ("Traceback (most recent call last):", True),
        ("(EngineCore pid=3)   File x", True),
        ("Solution: none", False),
    ],
)
def test_what_belongs_to_the_line_before(raw: str, inner: bool) -> None:
    assert continues(raw) is inner


@given(st.text())
def test_any_text_is_read_or_not(text: str) -> None:
    raw = bounded(text)
    line = parse_line(raw)
    assert line is None or len(line.text) <= len(raw)


@given(st.data())
def test_a_damaged_line_raises_nothing(data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from([raw for raw, _ in CASES.values()]))
    at = data.draw(st.integers(0, len(raw)))
    damage = data.draw(st.text(alphabet="[]()<>:;,. \t-0123456789PID=ERROR", max_size=12))
    parse_line(raw[:at] + damage + raw[at + data.draw(st.integers(0, 9)) :])
