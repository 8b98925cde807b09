"""A paste becomes plain values: base units, null for unknown, and what could not be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.host.pastes import PASTES
from tests.prepare import ROOT

FIXTURES = ROOT / "tests" / "collectors" / "fixtures" / "host"


def values(kind: str, fixture: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(PASTES[kind]((FIXTURES / fixture).read_text())))
    assert found["error"] is None
    return found


def test_lscpu() -> None:
    found = values("lscpu", "lscpu_clusters.txt")
    assert (found["cpus"], found["sockets"], found["max_hertz"]) == (160, None, 2.9e9)
    assert found["nodes"] == [
        {"node": 0, "cpus": "0-79", "memory_total_bytes": None, "memory_free_bytes": None},
        {"node": 1, "cpus": "80-159", "memory_total_bytes": None, "memory_free_bytes": None},
    ]


def test_numactl() -> None:
    found = values("numactl", "numactl_memory_only.txt")
    assert isinstance(found["nodes"], list) and isinstance(found["distances"], list)
    assert found["nodes"][2] == {
        "node": 4,
        "cpus": "",
        "memory_total_bytes": 65000 * 1024 * 1024,
        "memory_free_bytes": 64000 * 1024 * 1024,
    }
    assert {"node": 0, "to": 4, "distance": 40} in found["distances"]


def test_numa_maps() -> None:
    found = values("numa-maps", "numa_maps.txt")
    assert isinstance(found["memory"], list)
    assert {"kind": "shared", "node": 6, "bytes": 5 * 65536.0} in found["memory"]
    assert found["notes"] == []
    damaged = PASTES["numa-maps"]("\n".join(f"line {n}" for n in range(30)))
    assert damaged["notes"] == [*(f"cannot be read: 'line {n}'" for n in range(5)), "and 25 more"]
    assert damaged["error"] == "no mapping with pages in it"


def test_interrupts() -> None:
    found = values("interrupts", "interrupts.txt")
    assert isinstance(found["interrupts"], list)
    assert found["interrupts"][0] == {
        "irq": "1113",
        "handler": "sq_send_trigger_irq",
        "counts": {"1": 7, "24": 550000},
    }
    assert PASTES["interrupts"]("nothing")["error"] == "no header of CPUs: 'nothing'"


def test_cpu_binding() -> None:
    found = values("cpu-binding", "cpu_binding.txt")
    assert isinstance(found["npus"], list) and isinstance(found["notes"], list)
    assert found["npus"][1]["main"] == "50-53"
    assert found["npus"][1]["interrupts"][0] == {"handler": "sq_send_trigger_irq", "irq": 2113, "cpu": 48}
    assert (found["npus"][0]["mode"], found["npus"][0]["acl"]) == (None, None)
    assert len(found["notes"]) == 1


@pytest.mark.parametrize("kind", PASTES)
@given(text=st.text(max_size=200))
def test_any_text_is_json_or_an_error(kind: str, text: str) -> None:
    found = PASTES[kind](text)
    json.dumps(found)
    assert isinstance(found["notes"], list) and len(found["notes"]) <= 21
    assert found["error"] is None or isinstance(found["error"], str)


@pytest.mark.parametrize("kind", PASTES)
def test_an_empty_paste_is_an_error(kind: str) -> None:
    assert PASTES[kind]("")["error"]


def test_the_captured_hosts_as_values(corpus: Path) -> None:
    for kind, name in (
        ("lscpu", "lscpu_kunpeng920_5250_192c_8numa.txt"),
        ("numactl", "numactl_4node_x86.txt"),
        ("numactl", "numactl_x86_2node.txt"),
        ("numactl", "numactl_1node_vm.txt"),
        ("cpu-binding", "vllm_ascend_cpu_bind_log.txt"),
    ):
        found = PASTES[kind]((corpus / "cpu" / name).read_text())
        assert (found["error"], found["notes"]) == (None, []), name
