"""The catalogue as it applies to an engine and version."""

from __future__ import annotations

import pytest

from change.catalogue.index import HOT_KNOBS
from change.catalogue.rows import NOT_WRITTEN, RESTART, KnobRow, catalogue
from change.installed.engine import Argument, InstalledEngine


def rows(
    version: str | None, engine: str = "vllm", installed: InstalledEngine | None = None
) -> dict[str, KnobRow]:
    return {row.name: row for row in catalogue(engine, version, installed)}


def test_six_hot_knobs_in_a_recent_vllm() -> None:
    assert [row.name for row in catalogue("vllm", "0.32.0") if row.state == "hot"] == [*HOT_KNOBS]


@pytest.mark.parametrize(
    ("version", "attribute"),
    [
        ("0.28.0", "max_num_running_reqs"),
        ("0.30.1", "max_num_running_reqs"),
        ("0.31.0", "max_num_active_reqs"),
    ],
)
def test_the_running_cap_moved_in_0_31(version: str, attribute: str) -> None:
    assert rows(version)["max_num_seqs"].attribute == f"Scheduler.{attribute}"


def test_the_watermark_came_with_0_24() -> None:
    assert rows("0.23.0")["watermark"].state == "not in this version: since 0.24.0"
    assert rows("0.23.0")["watermark"].attribute is None
    assert rows("0.24.0")["watermark"].state == "hot"


def test_an_engine_too_old_for_the_plugin_still_has_the_launch_argument() -> None:
    row = rows("0.8.5")["max_num_seqs"]
    assert (row.lane, row.state, row.flag) == ("hot", RESTART, "--max-num-seqs")


def test_cold_knobs_need_a_restart_and_say_how_they_are_read_back() -> None:
    row = rows("0.32.0")["block_size"]
    assert (row.lane, row.flag, row.state, row.search) == ("cold", "--block-size", RESTART, "free")
    assert row.read_back[0] == "cache_config_info block_size"
    assert row.choices == ("16", "32", "64", "128", "256")
    assert row.rules[0].startswith("On recent Ascend a multiple of 128")
    assert rows("0.32.0")["enable_prefix_caching"].choices == ("on", "off")


def test_a_flag_that_is_gone_says_since_when_and_what_came_after_it_where() -> None:
    assert rows("0.17.1")["swap_space"].state == RESTART
    assert rows("0.18.0")["swap_space"].state == rows(None)["swap_space"].state == "gone since 0.18.0"
    anywhere = rows("0.18.0")["swap_space"].successors
    assert [text.split(" on ")[0] for text in anywhere] == ["kv_offloading_size", "npu_kv_offload_bytes"]
    assert all("not the same thing" in text for text in anywhere)
    (ascend,) = rows("0.18.0", "vllm-ascend")["swap_space"].successors
    assert ascend.startswith("npu_kv_offload_bytes on ascend")


def test_a_platforms_own_knobs_are_not_shown_on_another() -> None:
    ascend = rows("0.23.0", "vllm-ascend")
    assert "kv_offloading_size" not in ascend
    assert ascend["additional_config.enable_cpu_binding"].default == "true"
    assert rows("0.23.0")["npu_alloc_conf"].platforms == ("ascend",)


def test_without_a_version_rows_say_since_when() -> None:
    assert rows(None)["watermark"].state == "hot since 0.24.0"
    assert rows(None)["kv_offloading_size"].state == "restart, since 0.11.2"


def test_engines_have_rows_of_their_own() -> None:
    sglang = rows("0.5.15", "sglang")
    assert {row.state for row in sglang.values()} == {RESTART}
    assert sglang["tensor_parallel_size"].flag == "--tp-size"
    assert "block_size" not in sglang
    assert {row.state for row in rows(None, "mindie").values()} == {NOT_WRITTEN}


def test_flags_are_held_against_the_installed_engine() -> None:
    installed = InstalledEngine("vllm", "/site-packages/vllm", "0.32.0", (Argument(("--max-num-seqs",)),))
    found = rows("0.32.0", installed=installed)
    assert found["block_size"].state == "not in the installed engine"
    assert found["max_num_seqs"].state == "hot"
    assert found["omp_threads"].state == RESTART


def test_an_unknown_engine_or_version_is_refused() -> None:
    with pytest.raises(ValueError, match="expected vllm"):
        catalogue("tgi", "1.0")
    with pytest.raises(ValueError, match="expected something like"):
        catalogue("vllm", "new")
