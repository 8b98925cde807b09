"""`trimtab collect`, `knobs` and `doctor`: what is found, and code 1 for what is bad."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.collectors.programs import program
from tests.daemon.engine_stand import TOKEN, EngineStand
from tests.daemon.trimtab_command import Trimtab
from tests.prepare import ROOT

FIXTURES = ROOT / "tests" / "collectors" / "fixtures" / "npu_smi"


def test_collect_prints_samples_and_says_what_failed(trimtab: Trimtab, config: str) -> None:
    told = trimtab("collect", "--json", "-c", config)
    assert told.code == 0
    names = {sample["name"] for sample in told.json["samples"]}
    assert {"trimtab_engine_requests_running", "trimtab_host_cpus"} <= names
    success = {source["name"]: source["success"] for source in told.json["sources"]}
    assert success["vllm"] and success["host"] and success["logs"] and success["engine_threads"]
    assert not success["npu_smi"]
    assert told.err.startswith("trimtab: source npu_smi: ")


def test_a_series_that_two_sources_give_is_printed_once(
    trimtab: Trimtab, config: str, tmp_path: Path
) -> None:
    header, row = "NpuID(Idx)  ChipId(Idx) Pwr(W)", "0 0 77.7"
    table = FIXTURES / "b_910b.txt"
    watch = f'[ "$2" = watch ] && {{ echo "{header}"; echo "{row}"; exec sleep 60; }}'
    program(tmp_path, f"{watch}\ncat {table}")
    told = trimtab("collect", "--json", "-c", config)
    series = [(one["name"], tuple(one["labels"].items())) for one in told.json["samples"]]
    assert len(set(series)) == len(series)
    watts = [one for one in told.json["samples"] if one["name"] == "npu_power_watts"]
    assert 77.7 in [one["value"] for one in watts]


def test_collecting_one_source_that_fails_is_code_1(trimtab: Trimtab, config: str) -> None:
    told = trimtab("collect", "--source", "npu_smi", "-c", config)
    assert told.code == 1
    assert told.out == "no samples\n"


def test_knobs_are_the_engines_own(trimtab: Trimtab, config: str) -> None:
    rows = {row["name"]: row for row in trimtab("knobs", "--json", "-c", config).json}
    assert rows["max_num_seqs"]["value"] == 256.0
    assert rows["max_num_seqs"]["ceiling"] == 256.0
    assert rows["watermark"]["state"] == "not offered by this engine"


def test_knobs_of_another_version_need_no_engine(trimtab: Trimtab) -> None:
    rows = {
        row["name"]: row for row in trimtab("knobs", "--engine", "vllm", "--version", "0.20.0", "--json").json
    }
    assert "since 0.24" in rows["watermark"]["state"]
    assert "gone since" in rows["swap_space"]["state"]


def test_knobs_of_the_host_stand_beside_those_of_the_engine(trimtab: Trimtab, config: str) -> None:
    rows = {row["name"]: row for row in trimtab("knobs", "--json", "-c", config).json}
    assert [rows[name]["lane"] for name in ("max_num_seqs", "placement", "block_size")] == [
        "hot",
        "host",
        "cold",
    ]
    assert rows["placement"]["search"] == "free"
    assert "not allowed: host.knobs does not name it" in rows["cpu_governor"]["state"]
    rows = {row["name"]: row for row in trimtab("knobs", "--engine", "sglang", "--json").json}
    assert (rows["cpu_governor"]["value"], rows["cpu_governor"]["state"]) == (None, "the whole node's")


def test_launch_settings_in_force_are_read_back(trimtab: Trimtab, config: str, engine: EngineStand) -> None:
    rows = {row["name"]: row for row in trimtab("knobs", "--json", "-c", config).json}
    assert rows["block_size"]["value"] is None, "the page does not tell it"
    engine.more_metrics = 'vllm:cache_config_info{block_size="128",enable_prefix_caching="True"} 1.0\n'
    rows = {row["name"]: row for row in trimtab("knobs", "--json", "-c", config).json}
    assert (rows["block_size"]["value"], rows["enable_prefix_caching"]["value"]) == (128, True)
    assert rows["block_size"]["read_back"][0] == "cache_config_info block_size"


def test_knobs_show_what_came_after_a_flag_that_is_gone(trimtab: Trimtab) -> None:
    out = trimtab("knobs", "--engine", "vllm-ascend", "--version", "0.23.0").out
    assert "gone since 0.18.0; since then npu_kv_offload_bytes on ascend" in " ".join(out.split())


def test_flags_are_held_against_an_engine_on_disk(trimtab: Trimtab, tmp_path: Path) -> None:
    source = tmp_path / "vllm" / "engine" / "arg_utils.py"
    source.parent.mkdir(parents=True)
    source.write_text('def add(parser):\n    parser.add_argument("--max-num-seqs", type=int)\n')
    (tmp_path / "vllm" / "_version.py").write_text("__version__ = '0.28.0'\n")
    rows = {row["name"]: row for row in trimtab("knobs", "--installed", str(tmp_path), "--json").json}
    assert rows["max_num_seqs"]["state"] == "hot"
    assert rows["block_size"]["state"] == "not in the installed engine"
    told = trimtab("knobs", "--installed", str(tmp_path / "vllm"))
    assert told.code == 2
    assert "no vllm is installed at" in told.err


def test_doctor_shows_every_area_and_code_1_for_what_is_bad(
    trimtab: Trimtab, config: str, engine: EngineStand
) -> None:
    told = trimtab("doctor", "--json", "-c", config)
    found = {(row["area"], row["name"]): row for row in told.json}
    assert found["engine", "HTTP"]["verdict"] == "ok"
    assert found["plugin", "version"]["verdict"] == "ok"
    assert found["permissions", "store"]["verdict"] == "ok"
    assert told.code == 0, [row for row in told.json if row["verdict"] == "bad"]
    assert all(row["mend"] for row in told.json if row["verdict"] in ("bad", "warn"))
    engine.version = "0.9.0"
    told = trimtab("doctor", "-c", config)
    assert told.code == 1
    assert "install the same version of both" in told.out
    engine.stop()
    assert trimtab("doctor", "-c", config).code == 1


def test_the_bundle_holds_no_secret(trimtab: Trimtab, config: str, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.tar.gz"
    told = trimtab("doctor", "--bundle", str(bundle), "-c", config)
    assert told.code == 0
    assert bundle.stat().st_mode & 0o777 == 0o600
    with tarfile.open(bundle) as archive:
        texts = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            texts[member.name.split("/")[-1]] = file.read().decode()
    assert set(texts) == {
        *("findings.json", "config.yaml", "packages.txt", "journal.json"),
        *("samples.txt", "sources.txt"),
    }
    assert "trimtab_engine_requests_running" in texts["samples.txt"]
    assert "npu_smi: " in texts["sources.txt"]
    assert not any(TOKEN in text for text in texts.values())
    assert "token_file" in texts["config.yaml"]
