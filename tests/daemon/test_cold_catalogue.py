"""The catalogue in front of a restart: what it refuses, writes and compares for the configured engine."""

from __future__ import annotations

import asyncio

import pytest

from change.server import LaunchCommand, ServerError
from collectors.history import History
from collectors.sample import Sample
from daemon.cold_catalogue import EngineCatalogue
from daemon.engine.effective import EffectiveReader
from tests.change.plain_engine import PlainEngine

COMMAND = LaunchCommand(("vllm", "serve", "/models/m", "--block-size", "128", "--max-num-seqs=256"))


def catalogue(*, cards: int = 0) -> EngineCatalogue:
    history = History()
    place = [(("chip", "0"), ("name", "910B3"), ("npu", str(npu))) for npu in range(cards)]
    history.add([Sample("npu_hbm_total_bytes", 64e9, 1_700_000_000.0, labels) for labels in place])
    return EngineCatalogue(
        "vllm", PlainEngine(), history, lambda npu: True, EffectiveReader("http://127.0.0.1:1")
    )


def test_settings_are_written_into_the_command_and_read_from_it() -> None:
    made = asyncio.run(catalogue().render(COMMAND, {"block_size": 64}))
    assert made.argv[4] == "64"
    assert catalogue().settings(made)["block_size"] == 64
    assert catalogue().settings(made)["max_num_seqs"] == 256


def test_a_shells_command_is_refused_in_words() -> None:
    with pytest.raises(ServerError, match="shell"):
        asyncio.run(catalogue().render(LaunchCommand(("sh", "-c", "vllm serve m")), {"block_size": 64}))


def test_a_knob_that_does_not_exist_is_refused_in_words() -> None:
    with pytest.raises(ServerError, match="no knob of vllm"):
        asyncio.run(catalogue().render(COMMAND, {"no_such_thing": 1}))


def test_a_removed_flag_is_refused_with_its_successor() -> None:
    found = asyncio.run(catalogue(cards=4).problems({"swap_space": 4}, COMMAND))
    assert any("swap" in text for text in found)


def test_more_cards_than_there_are_are_refused() -> None:
    settings = {"tensor_parallel_size": 4, "pipeline_parallel_size": 2}
    assert asyncio.run(catalogue(cards=4).problems(settings, COMMAND))
    assert asyncio.run(catalogue(cards=8).problems(settings, COMMAND)) == []


def test_values_are_compared_as_the_catalogue_spells_them() -> None:
    (wrong,) = catalogue().mismatches(
        {"block_size": 64, "max_num_seqs": 256}, {"block_size": 128, "max_num_seqs": 256.0}
    )
    assert (wrong.knob, wrong.requested, wrong.effective) == ("block_size", 64, 128)


def test_what_can_change_answers_is_behind_the_gate() -> None:
    assert catalogue().golden({"kv_cache_dtype": "fp8"})
    assert not catalogue().golden({"block_size": 64})


def test_an_engine_that_does_not_answer_leaves_what_the_plugin_tells() -> None:
    assert isinstance(asyncio.run(catalogue().effective(())), dict)
