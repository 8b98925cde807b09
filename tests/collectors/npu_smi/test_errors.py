"""What npu-smi says instead of an answer becomes a reason and a mend."""

from __future__ import annotations

import pytest

from collectors.npu_smi import errors

HELD = "which container has it"


@pytest.mark.parametrize(
    ("code", "exit_code", "reason", "mend"),
    [
        (-8002, 190, "no permission", "HwHiAiUser"),
        (-8005, 187, "held by another container", HELD),
        (-8006, 186, "did not answer in time", "dmesg"),
        (-8008, 184, "absent", "lspci"),
        (-8012, 180, "not ready", "wait"),
        (-8013, 179, "not allowed in this container", "on the host"),
        (-8020, 172, "held by another container", HELD),
        (-8255, 193, "not supported by this device", ""),
    ],
)
def test_a_code_means_the_same_in_the_text_and_as_exit_code(
    code: int, exit_code: int, reason: str, mend: str
) -> None:
    assert code & 0xFF == exit_code
    by_text = errors.of_text(f"dcmi module initialize failed. ret is {code}\n")
    assert by_text is not None and reason in by_text.reason and str(code) in by_text.reason
    by_exit = errors.of_output("dcmi module initialize failed\n", exit_code)
    assert reason in by_exit.reason and f"exit code {exit_code}, which is {code}" in by_exit.reason
    assert mend in by_text.mend and by_text.mend == by_exit.mend


def test_the_text_counts_more_than_the_exit_code() -> None:
    assert "-8020" in errors.of_output("the device is used. ret is -8020", 187).reason


def test_a_code_that_is_not_known_is_said_as_such() -> None:
    failure = errors.of_text("failed. ret is -8099")
    assert failure is not None and "-8099: a code that is not known" in failure.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "printed nothing"),
        ("bash: hello\n", "but: bash: hello"),
        ("This device does not support querying hccs.\n", "does not support querying hccs"),
        ("Invalid chip id.\n", "Invalid chip id"),
        ("Usage: npu-smi info <watch|-l>\n", "its usage"),
        (
            "npu-smi: error while loading shared libraries: libdcmi.so: cannot open shared object file",
            "cannot load libdcmi.so",
        ),
    ],
)
def test_other_texts(text: str, reason: str) -> None:
    assert reason in errors.of_output(text).reason
    assert errors.of_output(text, 1) == errors.of_output(text)


@pytest.mark.parametrize(
    ("text", "vain"),
    [
        ("This device does not support querying watch info.\n", True),
        ("Error parameter of watch\nUsage: npu-smi info <-l>\n", True),
        ("failed. ret is -8255", True),
        ("failed. ret is -8005", False),
        ("NpuID(Idx)\n", False),
        ("", False),
    ],
)
def test_whether_asking_again_is_vain(text: str, vain: bool) -> None:
    assert errors.has_no_such_query(text) is vain
