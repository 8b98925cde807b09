"""The simulated watch and types read back as the cards are, and answer wrong questions as the real tool does."""

from __future__ import annotations

import asyncio
import sys

import pytest

from collectors.npu_smi.keyed import parse_keyed
from collectors.npu_smi.npu_smi_details import TYPES as ASKED
from collectors.npu_smi.npu_smi_details import NpuSmiDetailsCollector
from collectors.npu_smi.npu_smi_watch import NpuSmiWatchCollector
from collectors.npu_smi.program import NpuSmi
from collectors.npu_smi.watch import parse_watch
from sim.device import RATED_MEGAHERTZ
from sim.node import Node
from sim.npu_smi_types import TYPES, details, watch
from tests.prepare import ROOT
from tests.sim.served import served

START = 1_700_000_000.0


@pytest.fixture(scope="module")
def node() -> Node:
    node = Node("default", 3, START)
    node.advance(START + 90.0)
    return node


def test_the_watch_reads_back_as_the_cards_are(node: Node) -> None:
    found = parse_watch(watch(node))
    assert (len(found.rows), found.notes) == (4, ())
    for row, card in zip(found.rows, node.cards, strict=True):
        assert row.values["aicore_usage_ratio"] == pytest.approx(card.aicore, abs=0.005)
        assert row.values["memory_bandwidth_usage_ratio"] == pytest.approx(card.bandwidth, abs=0.005)
        assert row.values["power_watts"] == pytest.approx(card.watts, abs=0.05)
    assert watch(node, header=False) == watch(node).partition("\n")[2]


def test_every_type_that_is_asked_for_reads_back_whole(node: Node) -> None:
    assert set(TYPES) == set(ASKED)
    for kind in TYPES:
        keyed = parse_keyed(details(node, kind, 1, 0))
        assert (keyed.type, keyed.notes) == (kind, ())
        assert {one.npu for one in keyed.sections} | {one.npu for one in keyed.processes} == {"1"}


def test_load_shows_in_the_types(node: Node) -> None:
    def value(of: Node, kind: str, name: str) -> object:
        [section] = parse_keyed(details(of, kind, 0, 0)).sections
        return section.values[name]

    idle = Node("default", 3, START)
    assert value(idle, "common", "aicore_frequency_hertz") == 8e8
    assert value(node, "common", "aicore_frequency_hertz") == RATED_MEGAHERTZ * 1e6
    assert value(idle, "usages", "hbm_bandwidth_usage_ratio") == 0.0
    busy, sent = value(node, "usages", "hbm_bandwidth_usage_ratio"), value(node, "hccs", "hccs_tx_bytes")
    assert isinstance(busy, float) and 0.0 < busy <= 1.0
    assert isinstance(sent, tuple) and isinstance(sent[0], float) and sent[0] > 0.0


@pytest.mark.parametrize(
    ("kind", "npu", "chip", "said"),
    [
        ("product", 0, 0, "This device does not support querying product."),
        ("ecc", 9, 0, "Invalid card id."),
        ("ecc", 0, 1, "Invalid chip id."),
    ],
)
def test_wrong_questions(node: Node, kind: str, npu: int, chip: int, said: str) -> None:
    assert details(node, kind, npu, chip) == said + "\n"


def test_the_programs_watch_and_types_are_read_of_a_served_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def whole() -> None:
        async with served() as at:
            monkeypatch.setenv("TRIMTAB_SIM_URL", at.url)
            monkeypatch.setenv("PYTHONPATH", str(ROOT))
            at.advance(60.0)
            program = NpuSmi([sys.executable, "-m", "sim.npu_smi"])
            fast = NpuSmiWatchCollector(program)
            samples = await fast.collect(START)
            busy = [one.value for one in samples if one.name == "npu_mem_bandwidth"]
            assert len(busy) == 4 and fast.notes == ()
            slow = NpuSmiDetailsCollector(program, budget_seconds=0.0)
            await slow.collect(START)
            assert slow.notes == ()
            assert (await program.query("-t", "product", "-i", "0")).code == 193

    asyncio.run(whole())


def test_the_programs_watch_ends_when_the_node_does() -> None:
    async def run() -> tuple[str, int | None]:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "sim.npu_smi", "info", "watch", "-s", "ptaicmbnu"),
            env={"TRIMTAB_SIM_URL": "http://127.0.0.1:1", "PYTHONPATH": str(ROOT)},
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await child.communicate()
        return said.decode(), child.returncode

    said, code = asyncio.run(run())
    assert "no answer from" in said and code == 1
