"""The simulated npu-smi: tables of both layouts as the real tool draws them, and what it says to wrong arguments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collectors.npu_smi.table import parse_table
from sim.device import HBM_TOTAL_MIB
from sim.node import Node
from sim.npu_smi import Layout, info, main

START = 1_700_000_000.0
MEBIBYTE = 1024**2


@pytest.fixture(scope="module")
def node() -> Node:
    node = Node("default", 3, START)
    node.advance(START + 90.0)
    return node


@pytest.mark.parametrize("layout", ["A", "B"])
def test_a_table_reads_back_as_the_cards_are(node: Node, layout: Layout) -> None:
    table = parse_table(info(node, layout))
    assert (table.layout, table.notes) == (layout, ())
    assert table.tool_version == table.driver_version
    assert len(table.chips) == len(node.cards) == 4
    for chip, card in zip(table.chips, node.cards, strict=True):
        assert chip.health == "OK"
        assert chip.aicore_usage_ratio == pytest.approx(card.aicore, abs=0.005)
        assert chip.temperature_celsius == round(card.celsius)
        memory = chip.hbm if layout == "B" else chip.memory
        assert memory is not None and memory.used is not None
        assert memory.total == HBM_TOTAL_MIB * MEBIBYTE
        assert 0.9 < memory.used / memory.total < 0.95, "a serving vLLM holds most of it"
        assert chip.power_watts == (pytest.approx(card.watts, abs=0.05) if layout == "B" else None)
    assert len({chip.bus_id for chip in table.chips}) == 4


def test_load_shows_in_the_table(node: Node) -> None:
    idle = parse_table(info(Node("default", 3, START))).chips[0]
    busy = parse_table(info(node)).chips[0]
    assert idle.aicore_usage_ratio == 0.0
    assert busy.aicore_usage_ratio and busy.power_watts and idle.power_watts
    assert busy.power_watts > idle.power_watts


def test_a_dead_engine_leaves_the_cards_memory_and_their_process_list() -> None:
    node = Node("default", 3, START)
    assert len(parse_table(info(node)).processes) == 4
    node.restart(down_seconds=60.0)
    table = parse_table(info(node))
    assert table.processes == ()
    assert table.notes == ()
    assert table.chips[0].hbm is not None and table.chips[0].hbm.used is not None
    assert table.chips[0].hbm.used < 4096 * MEBIBYTE, "an idle card holds 3 to 4 GB"


@pytest.mark.parametrize(
    ("layout", "captured"),
    [("A", "info_25.2.0_310P3_duo_same-bus-id.txt"), ("B", "info_24.1.rc2_910B4_busy30G.txt")],
)
def test_rules_headers_and_columns_stand_where_a_real_table_has_them(
    node: Node, layout: Layout, captured: str, corpus: Path
) -> None:
    def frame(text: str) -> list[str]:
        # The second line holds the versions.
        return [line for number, line in enumerate(text.splitlines()[:6]) if number != 1]

    def edges(text: str) -> list[list[int]]:
        # Where a bar stands and where a cell begins, in the two rows of the first card.
        return [
            [place.start() for place in re.finditer(r"\||(?<=\| )\S|(?<=  )\S", line)]
            for line in text.splitlines()[6:8]
        ]

    real = (corpus / "npu-smi" / captured).read_text()
    ours = info(node, layout)
    assert frame(ours) == frame(real)
    assert edges(ours) == edges(real)


@pytest.mark.parametrize(
    ("arguments", "first", "usage"),
    [
        (["info", "-x"], "Error parameter of -x", "npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]"),
        (["info", "-t", "board"], "Error parameter of -t", "npu-smi info <watch|"),
        (["nonsense"], "Error parameter of nonsense", "npu-smi <Command|-h|-v>"),
        ([], "Usage: npu-smi", "npu-smi <Command|-h|-v>"),
    ],
)
def test_arguments_it_does_not_know_get_the_usage_on_standard_output_and_a_failure(
    arguments: list[str], first: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) != 0
    out, err = capsys.readouterr()
    assert out.startswith(first)
    assert f"Usage: {usage}" in out
    assert err == ""


@pytest.mark.parametrize("arguments", [["-v"], ["-h"], ["info", "-h"]])
def test_version_and_help_are_answered(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "npu-smi" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "set TRIMTAB_SIM_URL"),
        ("file:///etc/passwd", "set TRIMTAB_SIM_URL"),
        ("http://192.0.2.1:80", "set TRIMTAB_SIM_URL"),
        ("http://127.0.0.1:1", "no answer from http://127.0.0.1:1"),
    ],
)
def test_without_a_node_it_says_what_to_do(
    url: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRIMTAB_SIM_URL", url)
    assert main(["info"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
