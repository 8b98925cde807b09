"""Orders of a person with no daemon: applied, taken back, or refused with nothing changed."""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from daemon import client
from daemon.config_file import load
from daemon.presence import announced
from tests.daemon.engine_stand import LAUNCH, EngineStand
from tests.daemon.trimtab_command import Trimtab, one_line


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


@pytest.mark.parametrize("order", ["pause", "resume", "detach"])
def test_an_order_that_no_daemon_heard_says_so(
    trimtab: Trimtab, config: str, tmp_path: Path, order: str
) -> None:
    told = trimtab(order, "--json", "-c", config)
    assert told.code == 0
    assert told.json
    assert f"no daemon was found in {tmp_path / 'run'} for http://" in told.err


@pytest.mark.parametrize("order", ["pause", "detach"])
def test_an_order_that_may_take_a_restart_is_waited_for(
    trimtab: Trimtab, config: str, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    heard: list[str] = []

    class StandIn(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.path)
            body = json.dumps(
                {"paused": True, "note": None, "entry": 1, "outcome": "done", "requested": {}}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing on the stderr that is judged."""

    # Whoever has a limit at all has given up before any answer can come.
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 0.0)
    settings = load(Path(config))
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            with announced(settings.run_dir, settings.engine.url, url):
                told = trimtab(order, "-c", config)
        finally:
            server.shutdown()
            thread.join()
    assert heard == [f"/api/v1/{order}"]
    assert told.code == 0
    assert f"(pid {os.getpid()}) is asked to {order}; a restart of the engine" in told.err
