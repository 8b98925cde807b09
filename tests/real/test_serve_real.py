"""`trimtab serve` around a real vLLM server: plugin and token are in place, and neither takes the other down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import yaml

from tests.real.engine import PATIENCE_SECONDS, START_SECONDS, RealEngine

pytestmark = pytest.mark.real

TRIMTAB = [sys.executable, "-P", "-m", "daemon.cli"]


class Served:
    """The pair, with its output in a file."""

    def __init__(self, folder: Path) -> None:
        self._engine = RealEngine(folder=folder, plugin=True, arguments=["--max-num-seqs", "32"])
        self.url = self._engine.url
        self.config = folder / "trimtab.yaml"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "deployment": "wrap",
                    "engine": {
                        "url": self._engine.url,
                        "run_dir": str(folder / "run"),
                        "timeout_seconds": PATIENCE_SECONDS,
                    },
                    "collect": {"npu_smi": {"enabled": False}},
                    "web": {"port": 0},
                    "store": {"url": f"sqlite:///{folder}/trimtab.db"},
                }
            )
        )
        self.output = folder / "output"
        command = self._engine.command()
        at = command.index("--middleware")
        del command[at : at + 2]  # `serve` is to add it
        environ = self._engine.environment()
        del environ["TRIMTAB_TOKEN_FILE"]
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [*TRIMTAB, "serve", "-c", str(self.config), "--", *command],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def trimtab(self, *words: str) -> tuple[int, Any]:
        """Run a command with --json beside the pair."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TRIMTAB_")}
        done = subprocess.run(
            [*TRIMTAB, *words, "--json", "-c", str(self.config)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, json.loads(done.stdout or "null")

    def ready(self) -> None:
        """Wait until the engine serves."""
        deadline = time.monotonic() + 2 * START_SECONDS
        with httpx2.Client(base_url=self.url, timeout=5.0, trust_env=False) as client:
            while True:
                try:
                    if client.get("/health").status_code == 200:
                        return
                except httpx2.TransportError:
                    pass  # it does not listen yet
                assert self.process.poll() is None, self.output.read_text()[-4000:]
                assert time.monotonic() < deadline, self.output.read_text()[-4000:]
                time.sleep(1)

    def children(self) -> tuple[psutil.Process, psutil.Process]:
        """The engine and the daemon."""
        found = psutil.Process(self.process.pid).children()
        (daemon,) = [child for child in found if "daemon.cli" in child.cmdline()]
        (engine,) = [child for child in found if child.pid != daemon.pid]
        return engine, daemon

    def end(self) -> None:
        """Leave nothing running."""
        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for child in family:
                if child.is_running():
                    child.kill()
        self.process.wait(60)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pair = Served(tmp_path_factory.mktemp("served"))
    try:
        pair.ready()
        yield pair
    finally:
        pair.end()


def test_the_pair_lives_and_dies_as_promised(served: Served, tmp_path: Path) -> None:
    text = served.output.read_text()
    assert "added to the command: --middleware trimtab_plugin.http.Middleware" in text
    assert (served.config.parent / "run" / "token").stat().st_mode & 0o777 == 0o600

    code, findings = served.trimtab("doctor")
    assert code == 0, [row for row in findings if row["verdict"] == "bad"]

    values = tmp_path / "values.yaml"
    values.write_text("max_num_seqs: 8")
    code, result = served.trimtab("apply", str(values))
    assert (code, result["outcome"], result["effective"]) == (0, "done", {"max_num_seqs": 8})

    engine, daemon = served.children()
    daemon.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while "the engine goes on" not in served.output.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert engine.is_running()
    code, result = served.trimtab("rollback")
    assert (code, result["effective"]) == (0, {"max_num_seqs": 32})

    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(60) == 0
    assert not engine.is_running()
