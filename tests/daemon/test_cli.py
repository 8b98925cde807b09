"""The commands: what they print, their exit codes, and one line for every mistake of a person."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.cli import run
from store import open_store
from store.models import Campaign, Decision, Trial
from tests.daemon.engine_stand import LAUNCH, TOKEN, EngineStand

WAIT_SECONDS = 180.0


class Told:
    """What a command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Trimtab = Callable[..., Told]


@pytest.fixture
def trimtab(capsys: pytest.CaptureFixture[str]) -> Trimtab:
    """Run a command in this process."""

    def call(*words: str) -> Told:
        capsys.readouterr()
        code = run(list(words))
        captured = capsys.readouterr()
        return Told(code, captured.out, captured.err)

    return call


@pytest.fixture
def engine() -> Iterator[EngineStand]:
    with EngineStand() as stand:
        yield stand


@pytest.fixture
def config(tmp_path: Path, engine: EngineStand) -> str:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    values = {
        "engine": {
            "url": engine.url,
            "token_file": str(token),
            "run_dir": str(tmp_path / "run"),
            "timeout_seconds": 2,
        },
        "collect": {"npu_smi": {"command": str(tmp_path / "npu-smi")}},
        "web": {"port": 0},
        "store": {"url": f"sqlite:///{tmp_path}/trimtab.db"},
    }
    path = tmp_path / "trimtab.yaml"
    path.write_text(yaml.safe_dump(values))
    return str(path)


def one_line(told: Told) -> None:
    assert told.out == ""
    assert re.fullmatch(r"trimtab: [^\n]+\n", told.err), told.err


# Usage.


def test_the_version_is_printed(trimtab: Trimtab) -> None:
    told = trimtab("--version")
    assert (told.code, told.err) == (0, "")
    assert re.fullmatch(r"trimtab \d+\.\d+\.\d+\n", told.out)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["tunee"],
        ["tune", "--mode", "observe"],
        ["tune", "--minutes", "-1", "--mode", "act"],
        ["rollback", "0"],
        ["rollback", "two"],
        ["history", "--nope"],
        ["config"],
        ["apply"],
        ["serve"],
        ["knobs", "--engine", "tgi"],
        ["knobs", "--version", "new"],
        ["collect", "--source", "nothing"],
        ["collect", "-c", "/nowhere/config.yaml"],
        ["tune"],
    ],
    ids=" ".join,
)
def test_usage_errors_are_one_line_and_code_2(trimtab: Trimtab, words: list[str]) -> None:
    told = trimtab(*words)
    assert told.code == 2
    one_line(told)


def test_every_command_has_help(trimtab: Trimtab) -> None:
    listed = re.findall(r"^  ([a-z]+)  ", trimtab("--help").out, re.MULTILINE)
    assert {
        "run",
        "serve",
        "doctor",
        "collect",
        "tune",
        "trials",
        "report",
        "knobs",
        "apply",
        "config",
    } <= set(listed)
    for command in listed:
        told = trimtab(command, "--help")
        assert told.code == 0
        assert "Usage:" in told.out


def test_the_engine_that_is_not_there_is_code_3(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    engine.stop()
    values = tmp_path / "values.yaml"
    values.write_text("max_num_seqs: 64")
    for words in (
        ["apply", str(values)],
        ["rollback"],
        ["detach"],
        ["tune", "--mode", "act"],
        ["tune", "--dry-run"],
    ):
        told = trimtab(*words, "-c", config)
        assert told.code == 3, words
        one_line(told)
        assert "nobody answers" in told.err


def test_reading_goes_on_without_the_engine(trimtab: Trimtab, config: str, engine: EngineStand) -> None:
    engine.stop()
    assert trimtab("history", "-c", config).code == 0
    told = trimtab("knobs", "--json", "-c", config)
    assert told.code == 0
    assert {"batch_max_tokens", "block_size"} <= {row["name"] for row in told.json}
    assert "nobody answers" in told.err


def test_a_defect_is_not_hidden_as_a_persons_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.commands.config.shown", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(["config", "check"])


# Configuration.


def test_config_check_prints_what_is_in_effect_and_no_secret(trimtab: Trimtab, config: str) -> None:
    told = trimtab("config", "check", "-c", config)
    assert told.code == 0
    assert yaml.safe_load(told.out)["web"]["port"] == 0
    assert TOKEN not in told.out
    assert trimtab("config", "check", "--json", "-c", config).json["mode"] == "observe"


def test_config_check_names_line_and_nearest_key(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("tune:\n  min_efect: 0.1\n")
    told = trimtab("config", "check", "-c", str(path))
    assert told.code == 2
    assert told.err == f"trimtab: {path}:2: tune.min_efect: unknown key; did you mean tune.min_effect?\n"


def test_config_check_refuses_an_open_address_without_a_token(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "open.yaml"
    path.write_text("web: {host: 0.0.0.0}")
    told = trimtab("config", "check", "-c", str(path))
    assert told.code == 2
    assert "web.token_file" in told.err
    assert trimtab("run", "-c", str(path)).code == 2


def test_a_port_that_is_taken_is_said(trimtab: Trimtab, config: str, engine: EngineStand) -> None:
    values = yaml.safe_load(Path(config).read_text())
    values["web"]["port"] = engine.port
    Path(config).write_text(yaml.safe_dump(values))
    told = trimtab("run", "-c", config)
    assert told.code == 2
    one_line(told)
    assert "set web.port" in told.err


def test_the_schema_knows_every_section(trimtab: Trimtab) -> None:
    schema = trimtab("config", "schema").json
    assert {"engine", "slo", "tune", "collect", "web", "store", "mode"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_the_file_named_in_the_environment_is_used(
    trimtab: Trimtab, config: str, engine: EngineStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_CONFIG", config)
    assert trimtab("config", "check", "--json").json["engine"]["url"] == engine.url


# Sources and knobs.


def test_collect_prints_samples_and_says_what_failed(trimtab: Trimtab, config: str) -> None:
    told = trimtab("collect", "--json", "-c", config)
    assert told.code == 0
    names = {sample["name"] for sample in told.json["samples"]}
    assert {"trimtab_engine_requests_running", "trimtab_host_cpus"} <= names
    assert {s["name"]: s["success"] for s in told.json["sources"]} == {
        "vllm": True,
        "npu_smi": False,
        "host": True,
    }
    assert told.err.startswith("trimtab: source npu_smi: ")


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


# Changes without a daemon.


def test_apply_rollback_and_history(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    values = tmp_path / "values.json"
    values.write_text('{"max_num_seqs": 64, "batch_max_tokens": 1024}')
    told = trimtab("apply", str(values), "-c", config, "--json")
    assert told.code == 0
    assert told.json["outcome"] == "done"
    assert engine.values == {"max_num_seqs": 64.0, "batch_max_tokens": 1024.0}
    assert engine.lease is None
    told = trimtab("history", "--json", "-c", config)
    assert [(row["kind"], row["outcome"], row["actor"]) for row in told.json] == [("manual", "done", "cli")]
    told = trimtab("rollback", "-c", config)
    assert told.code == 0
    assert engine.values == LAUNCH
    told = trimtab("rollback", "-c", config)
    assert told.code == 1
    one_line(told)
    assert "manual" in trimtab("history", "-c", config).out


def test_values_the_engine_does_not_hold_are_taken_back_and_code_1(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    engine.clamp["max_num_seqs", 200.0] = 128.0
    values = tmp_path / "values.yaml"
    values.write_text("max_num_seqs: 200")
    told = trimtab("apply", str(values), "-c", config, "--json")
    assert told.code == 1
    assert told.json["outcome"] == "undone"
    assert engine.values == LAUNCH
    assert "was asked to be 200 and is 128" in told.err


@pytest.mark.parametrize(
    ("text", "code", "what"),
    [
        ("max_num_seqs: 512", 1, "its ceiling"),
        ("max_num_seq: 5", 1, "this engine has no max_num_seq"),
        ("max_num_seqs: many", 2, "values.yaml:1: max_num_seqs: expected a number, not 'many'"),
        ("max_num_seqs: true", 2, "expected a number"),
        ("- 1", 2, "expected knob names and values"),
        ("", 2, "expected knob names and values"),
        ("a: [", 2, "values.yaml:1:"),
    ],
)
def test_values_that_cannot_be_applied_change_nothing(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path, text: str, code: int, what: str
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(text)
    told = trimtab("apply", str(values), "-c", config)
    assert told.code == code
    one_line(told)
    assert what in told.err
    assert engine.changes == []


def test_detach_gives_the_launch_values_back(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("max_num_seqs: 64")
    assert trimtab("apply", str(values), "-c", config).code == 0
    assert trimtab("detach", "-c", config).code == 0
    assert engine.values == LAUNCH


def test_pause_and_resume_without_a_daemon(trimtab: Trimtab, config: str) -> None:
    assert trimtab("pause", "--json", "-c", config).json == {"paused": True, "note": None}
    told = trimtab("tune", "--mode", "act", "-c", config)
    assert told.code == 1
    assert "paused" in told.err
    assert trimtab("resume", "-c", config).out == "not paused\n"


def test_a_dry_run_says_what_would_be_tried_and_changes_nothing(
    trimtab: Trimtab, config: str, engine: EngineStand
) -> None:
    told = trimtab("tune", "--dry-run", "--json", "-c", config)
    assert told.code == 0
    assert told.json["incumbent"] == LAUNCH
    assert {row["name"] for row in told.json["search"]} == {"batch_max_tokens", "max_num_seqs"}
    assert engine.changes == []
    engine.scheduler_known = False
    assert trimtab("tune", "--dry-run", "-c", config).code == 1


# Results.


def remember(config: str, report: dict[str, Any] | None) -> None:
    settings = yaml.safe_load(Path(config).read_text())
    store = open_store(settings["store"]["url"])
    with store.session() as session:
        campaign = Campaign(
            engine=settings["engine"]["url"],
            boot_id="b",
            started=1_800_000_000.0,
            ended=None,
            phase="race",
            decision=None if report is None else report["decision"],
            objective={"name": "itl", "unit": "seconds", "direction": "lower", "quantile": 0.99},
            settings={},
            incumbent={"batch_max_tokens": 2048.0},
            fingerprint={},
            calibration={},
            report=report,
        )
        session.add(campaign)
        session.flush()
        session.add(
            Trial(
                campaign_id=campaign.id,
                number=1,
                source="prior",
                values={"batch_max_tokens": 512.0},
                state="promoted",
                effect={"median": 0.25, "low": 0.2, "high": 0.3, "pairs": 12, "phase": "confirm"},
            )
        )
        session.add(
            Decision(
                campaign_id=campaign.id,
                trial=1,
                time=1_800_000_100.0,
                kind="promote",
                text="it gained 25%",
                figures={},
            )
        )
    store.close()


def test_before_the_first_campaign_there_is_nothing_to_report(trimtab: Trimtab, config: str) -> None:
    for command in ("trials", "report"):
        told = trimtab(command, "-c", config)
        assert told.code == 1
        one_line(told)


def test_trials_and_report_show_what_was_decided_and_why(trimtab: Trimtab, config: str) -> None:
    remember(
        config,
        {
            "decision": "promoted",
            "incumbent": {"batch_max_tokens": 2048.0},
            "winner": {"batch_max_tokens": 512.0},
            "objective": {"name": "itl", "quantile": 0.99, "unit": "seconds", "direction": "lower is better"},
            "effect": {"median": 0.25, "low": 0.2, "high": 0.3},
            "reasons": ["it gained 25%"],
        },
    )
    told = trimtab("trials", "-c", config)
    assert "batch_max_tokens=512" in told.out
    assert "+25.0%" in told.out
    assert trimtab("trials", "--json", "-c", config).json["trials"][0]["state"] == "promoted"
    told = trimtab("report", "-c", config)
    assert "promoted" in told.out
    assert "because it gained 25%" in told.out
    assert trimtab("report", "1", "--json", "-c", config).json["winner"] == {"batch_max_tokens": 512.0}
    assert trimtab("report", "7", "-c", config).code == 1


def test_a_campaign_without_a_report_is_said(trimtab: Trimtab, config: str) -> None:
    remember(config, None)
    told = trimtab("report", "-c", config)
    assert told.code == 1
    assert "has no report yet" in told.err


# Doctor.


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
    assert {"findings.json", "config.yaml", "packages.txt", "journal.json"} == set(texts)
    assert not any(TOKEN in text for text in texts.values())
    assert "token_file" in texts["config.yaml"]


# With the daemon.


class Daemon:
    """`trimtab run` in a process of its own."""

    def __init__(self, config: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "daemon.cli", "run", "-c", config], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"look at (http://\S+)/", line)
        assert found, line + self.process.stderr.read()
        self.url = found[1]

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


def test_commands_go_through_the_running_daemon(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    daemon = Daemon(config)
    try:
        values = tmp_path / "values.yaml"
        values.write_text("max_num_seqs: 64")
        assert trimtab("apply", str(values), "-c", config).code == 0
        assert engine.values["max_num_seqs"] == 64.0
        assert trimtab("history", "--json", "-c", config).json[0]["actor"] == "operator"
        values.write_text("max_num_seqs: 1024")
        told = trimtab("apply", str(values), "-c", config)
        assert told.code == 1
        one_line(told)
        assert trimtab("rollback", "-c", config).code == 0
        assert engine.values == LAUNCH
        assert trimtab("pause", "--json", "-c", config).json["paused"] is True
        told = trimtab("tune", "--mode", "act", "-c", config)
        assert told.code == 1
        assert "paused" in told.err
        assert trimtab("resume", "--json", "-c", config).json["paused"] is False
        told = trimtab("run", "-c", config)
        assert told.code == 2
        assert "another daemon" in told.err
        rows = {row["name"]: row for row in trimtab("doctor", "--json", "-c", config).json}
        assert rows["daemon"]["verdict"] == "ok"
        assert daemon.url in rows["daemon"]["found"]
    finally:
        assert daemon.end(signal.SIGTERM) == 0


def test_a_daemon_killed_in_a_trial_leaves_no_half_trial(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    settings = yaml.safe_load(Path(config).read_text())
    settings["mode"] = "act"
    Path(config).write_text(yaml.safe_dump(settings))
    code = (
        "import asyncio, os, time\n"
        "from pathlib import Path\n"
        "from change.journal import Journal\n"
        "from daemon import assembly\nfrom daemon.config_file import load\nfrom store import open_store\n"
        "async def trial():\n"
        f"    config = load(Path({config!r}))\n"
        "    journal = Journal(open_store(config.store_url), config.engine.url)\n"
        "    async with assembly.hot_engine(config) as control:\n"
        "        state = await control.state()\n"
        "        journal.open('trial', state.boot_id, 'campaign 1', {'max_num_seqs': 32}, {'max_num_seqs': 256}, 1.0)\n"
        "        await control.set_knobs({'max_num_seqs': 32}, if_epoch=state.epoch, lease_seconds=30)\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(trial())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == -signal.SIGKILL
    assert engine.values["max_num_seqs"] == 32.0
    daemon = Daemon(config)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while engine.values != LAUNCH or engine.lease is not None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        assert daemon.end(signal.SIGINT) == 0
    assert [row["state"] for row in trimtab("history", "--json", "-c", config).json] == ["closed"]
