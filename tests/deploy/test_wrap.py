"""The wrap shape as a new user tries it: one command in front of the engine's own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.real.engine import RealEngine, free_port

READY_SECONDS = 240.0


def read_live(port: int) -> dict[str, Any] | None:
    """What the daemon says now, or None while it does not listen."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/live", timeout=5) as answer:
            return dict(json.load(answer))
    except OSError:
        return None


@pytest.mark.real
def test_serve_puts_daemon_and_plugin_beside_a_real_engine(tmp_path: Path) -> None:
    engine = RealEngine(folder=tmp_path / "engine")
    command = engine.command()
    cut = command.index("--middleware")
    del command[cut : cut + 2]  # serve adds it
    page = free_port()
    config = tmp_path / "config.yaml"
    config.write_text(f"engine: {{url: '{engine.url}'}}\nweb: {{port: {page}}}\n")
    output = tmp_path / "output"
    with output.open("wb") as file:
        served = subprocess.Popen(
            [sys.executable, "-m", "daemon.cli", "serve", "-c", str(config), "--", *command],
            env=engine.environment() | {"XDG_STATE_HOME": str(tmp_path / "state")},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        live: dict[str, Any] | None = None
        while live is None or not live["engine"].get("plugin"):
            assert served.poll() is None and time.monotonic() < deadline, output.read_text()[-4000:]
            time.sleep(0.5)
            live = read_live(page)
        assert live["mode"] == "observe"
        assert live["engine"]["reachable"] is True
        assert live["engine"]["version"].startswith(engine.version)
        assert live["engine"]["values"] == live["engine"]["effective"]
        assert live["engine"]["effective"]["batch_max_tokens"] > 0
        served.send_signal(signal.SIGTERM)
        served.wait(60)
        assert read_live(page) is None
    finally:
        if served.poll() is None:
            served.send_signal(signal.SIGTERM)
            try:
                served.wait(60)
            except subprocess.TimeoutExpired:
                served.kill()
                served.wait()
