"""Nothing of the person who runs the tests is read or written: state, configuration and secrets are the test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import yaml

from daemon import engine_watch, loops, patient_store, supervisor
from daemon.cli import run
from tests.daemon.engine_stand import TOKEN, EngineStand
from tests.daemon.living import Said
from tests.daemon.trimtab_command import Told, Trimtab


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config-home"))
    for name in list(os.environ):
        if name.startswith("TRIMTAB_") and name not in ("TRIMTAB_NO_SKIP", "TRIMTAB_CORPUS"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A command sets the log up for its whole process; the next test begins anew."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


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
    """An engine with the plugin, on a real port."""
    with EngineStand() as stand:
        yield stand


@pytest.fixture
def config(tmp_path: Path, engine: EngineStand) -> str:
    """A configuration file for that engine, with everything else the test's own."""
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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same loops, only faster."""
    monkeypatch.setattr(loops, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(loops, "CAMPAIGN_SECONDS", 0.05)
    monkeypatch.setattr(loops, "HOUSEKEEPING_SECONDS", 0.1)
    monkeypatch.setattr(engine_watch, "PROBE_EVERY_SECONDS", 0.2)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(patient_store, "AGAIN_SECONDS", 0.1)


@pytest.fixture
def said() -> Iterator[Said]:
    """Every line of the log."""
    with structlog.testing.capture_logs() as lines:
        yield lines
