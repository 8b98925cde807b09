"""A process is named after what it does, and there are only so many names."""

from __future__ import annotations

import pytest

from collectors.host.roles import MAX_ROLES, Roles, role


@pytest.mark.parametrize(
    ("title", "name", "main", "wanted"),
    [
        ("VLLM::EngineCore", "VLLM::EngineCor", False, "EngineCore"),
        ("VLLM::Worker_DP0_TP7\0\0\0", "VLLM::Worker_DP", False, "Worker_DP0_TP7"),
        ("sglang::scheduler_TP1", "sglang::schedul", False, "scheduler_TP1"),
        ("", "VLLM::Worker_TP", False, "Worker_TP"),
        ("VLLM::APIServer", "VLLM::APIServer", True, "APIServer"),
        ("/usr/bin/python3\0/usr/bin/vllm\0serve\0", "vllm", True, "main"),
        (
            "python3\0-c\0from multiprocessing.resource_tracker import main",
            "python3",
            False,
            "resource_tracker",
        ),
        ("/opt/my tool", "my tool", False, "my_tool"),
        ("", "", False, "unnamed"),
    ],
)
def test_a_role(title: str, name: str, main: bool, wanted: str) -> None:
    assert role(title, name, main=main) == wanted


def test_roles_are_few() -> None:
    roles = Roles()
    given = {roles.label(f"Worker_TP{number}") for number in range(500)}
    assert len(given) == MAX_ROLES + 1
    assert roles.label("Worker_TP0") == "Worker_TP0"
    assert roles.label("Worker_TP499") == "other"
