"""vllm-ascend's lines about binding are found among the others and told apart by NPU."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collectors.host.binding import MAX_NOTES, NpuBinding, parse_binding
from tests.prepare import ROOT

TEXT = (ROOT / "tests" / "collectors" / "fixtures" / "host" / "cpu_binding.txt").read_text()


def test_what_was_bound_for_each_npu() -> None:
    found = parse_binding(TEXT.splitlines())
    assert found.npus[4] == NpuBinding(
        4,
        "topo_affinity",
        0,
        frozenset({50, 51, 52, 53}),
        frozenset({54}),
        frozenset({55}),
        2,
        "0000:81:00.0",
        {"sq_send_trigger_irq": (2113, 48), "cq_update_irq": (2114, 49)},
    )
    assert found.npus[5] == NpuBinding(
        5, "topo_affinity", 1, frozenset({74, 75, 76, 77}), frozenset({78}), frozenset({79})
    )
    assert found.npus[0].main == frozenset({8, 9, 10, 11}), "the form of Ascend 950"
    assert len(found.notes) == 1 and "/proc/irq is not writable" in found.notes[0]


def test_a_later_start_of_the_engine_counts() -> None:
    lines = ["NPU1: main=[1 2]  acl=[3]  release=[[4]]", "NPU1: main=[11 12]  acl=[13]  release=[]"]
    found = parse_binding(lines)
    assert found.npus == {1: NpuBinding(1, None, None, frozenset({11, 12}), frozenset({13}), frozenset())}


def test_damage_and_refusals_are_noted_and_bounded() -> None:
    cut = "[cpu_binding.py:372] NPU2: main=[98 99 100"
    beyond = "[cpu_bind_mode] mode=global_slice rank=3 visible_npus=[0]"
    found = parse_binding([cut, beyond, "something else", *(f"[irq] trouble {n}" for n in range(50))])
    assert found.npus == {}
    assert found.notes[:2] == (cut, beyond)
    assert len(found.notes) == MAX_NOTES + 1
    assert found.notes[-1] == "and 32 more lines about binding"


def test_the_captured_log(corpus: Path) -> None:
    text = (corpus / "cpu" / "vllm_ascend_cpu_bind_log.txt").read_text()
    found = parse_binding(text.splitlines())
    second = found.npus[2]
    assert (second.mode, second.rank) == ("topo_affinity", 2)
    assert second.main == frozenset(range(98, 142))
    assert (second.acl, second.release) == (frozenset({142}), frozenset({143}))
    assert found.npus[0] == NpuBinding(0, "topo_affinity", 0), "its plan is not in the excerpt"
    assert found.notes == ()


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)))
def test_no_cut_invents_a_cpu(start: int, end: int) -> None:
    whole = parse_binding(TEXT.splitlines())
    for npu, one in parse_binding(TEXT[min(start, end) : max(start, end)].splitlines()).npus.items():
        true = whole.npus[npu]
        assert one.main in (frozenset(), true.main)
        assert one.acl in (frozenset(), true.acl)
        assert one.interrupts.items() <= true.interrupts.items()


@given(st.lists(st.text(max_size=80), max_size=5))
def test_any_lines_are_read(lines: list[str]) -> None:
    parse_binding(lines)
