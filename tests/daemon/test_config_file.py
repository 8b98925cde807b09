"""The configuration file: every example is read as its name says."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from collectors.history import History
from daemon.config import Config, known_keys, shown
from daemon.config_file import load, read
from daemon.errors import USAGE, ConfigError
from tuner.settings import Limit, Objective, TuneSettings

EXAMPLES = Path(__file__).parent / "config"
GOOD = sorted((EXAMPLES / "good").glob("*.yaml"))
BAD = sorted((EXAMPLES / "bad").glob("*.yaml"))


@pytest.mark.parametrize("path", GOOD + BAD, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_example(path: Path) -> None:
    if path.parent.name == "good":
        assert isinstance(load(path), Config)
        return
    line, _, message = path.read_text().splitlines()[0].removeprefix("# expect: ").partition(": ")
    with pytest.raises(ConfigError) as failure:
        load(path)
    assert str(failure.value).startswith(f"{path}:{line}: {message}")
    assert failure.value.code == USAGE
    assert "hunter2" not in str(failure.value)
    assert len(str(failure.value).splitlines()) == 1


def test_no_source_may_be_read_so_seldom_that_its_readings_go_stale() -> None:
    stale = inspect.signature(History).parameters["stale_seconds"].default
    intervals = [key for key in known_keys() if key.endswith("interval_seconds")]
    assert len(intervals) > 10
    for key in intervals:
        values: object = stale
        for part in reversed(key.split(".")):
            values = {part: values}
        with pytest.raises(ValidationError, match="less than or equal to"):
            Config.model_validate(values)


def test_there_are_examples_of_both_kinds() -> None:
    assert len(GOOD) >= 5
    assert len(BAD) >= 20


def test_every_mistake_has_a_line_of_its_own() -> None:
    with pytest.raises(ConfigError) as failure:
        read("mode: auto\nweb:\n  port: -1\n  prot: 80\n", "file")
    assert sorted(line.split(":")[1] for line in str(failure.value).splitlines()) == ["1", "3", "4"]


def test_a_missing_file_is_said() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/trimtab\.yaml: no such file"):
        load(Path("/nowhere/trimtab.yaml"))


def test_a_file_that_is_no_text_is_said(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(path)


@pytest.mark.parametrize(
    ("text", "key", "suggestion"),
    [
        ("slo: {ttft_p99: 1}", "slo.ttft_p99", "slo.ttft_p99_seconds"),
        ("web: {allowed_host: [a]}", "web.allowed_host", "web.allowed_hosts"),
        ("store: {retention: 1}", "store.retention", "store.retention_days"),
        ("collect: {npusmi: {}}", "collect.npusmi", "collect.npu_smi"),
        ("engine: {tls: {cafile: /x}}", "engine.tls.cafile", "engine.tls.ca_file"),
    ],
)
def test_the_nearest_known_key_is_suggested(text: str, key: str, suggestion: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: unknown key; did you mean {suggestion}"):
        read(text, "file")


@pytest.mark.parametrize("word", ["on", "off", "yes", "no"])
def test_words_that_older_yaml_took_for_switches_are_text(word: str) -> None:
    config = read(f"collect: {{npu_smi: {{command: {word}}}}}", "file")
    assert config.collect.npu_smi.command == word


def test_times_of_day_need_no_quotes() -> None:
    config = read("tune: {schedule: [22:00, 2:05], quiet_hours: [22:00-06:00]}", "file")
    assert config.tune.schedule == ["22:00", "02:05"]
    assert config.tune.quiet_hours == ["22:00-06:00"]


def test_limits_and_settings_reach_the_tuner() -> None:
    config = load(EXAMPLES / "good" / "every_section.yaml")
    slo = config.slo.limits()
    assert slo.error_ratio == 0.001
    assert set(slo.limits) == {Limit("ttft", 0.5, 0.5), Limit("ttft", 0.99, 2.0), Limit("itl", 0.99, 0.05)}
    settings = config.tune.settings()
    assert settings == TuneSettings(
        knobs=("batch_max_tokens", "max_prefill_tokens"),
        objective=Objective("itl", 0.99),
        min_effect=0.05,
        max_regression=0.2,
        minutes=90.0,
        max_temperature_celsius=80.0,
        lease_seconds=20.0,
    )
    assert config.tune.settings(minutes=5).minutes == 5


def test_defaults_are_the_tuners() -> None:
    assert Config().tune.settings() == TuneSettings()


def test_what_is_shown_reads_back_as_the_same() -> None:
    config = load(EXAMPLES / "good" / "every_section.yaml")
    assert read(yaml.safe_dump(shown(config)), "shown") == config


def test_known_keys_are_dotted_paths() -> None:
    keys = known_keys()
    assert "mode" in keys
    assert "engine.tls.ca_file" in keys
    assert "tune.objective.quantile" in keys
    assert "engine" not in keys


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        read(text, "file")
    except ConfigError as error:
        assert str(error).startswith("file")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*known_keys(), "engine", "slo", "tune", "web"]), inner, max_size=4
            )
        ),
        max_leaves=10,
    )
)
def test_no_values_break_the_reader(values: object) -> None:
    try:
        read(yaml.safe_dump(values), "file")
    except ConfigError as error:
        assert str(error).startswith("file")
