"""A campaign in the foreground: alone or through the daemon, and what an interrupt does to it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from daemon import foreground
from daemon.cli import run
from daemon.client import DaemonClient
from daemon.presence import Presence
from tests.daemon.engine_stand import LAUNCH, EngineStand

WAIT_SECONDS = 180.0


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "daemon.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"it never said {text!r}")


class AskingDaemon(DaemonClient):
    """A daemon whose campaign lasts for these looks, each with what waits for an answer then; no HTTP."""

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        super().__init__(Presence(1, "http://127.0.0.1:1"), None)
        self._lives = [
            {"campaign": {"phase": "race"}, "approvals": asked, "pending": next(iter(asked), None)}
            for asked in looks
        ]
        self.posted: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str, **query: Any) -> Any:
        return self._lives.pop(0) if self._lives else {"campaign": None, "approvals": [], "pending": None}

    def post(self, path: str, body: dict[str, Any], *, patient: bool = False) -> Any:
        self.posted.append((path, body))


class NoDisplay:
    def show(self, status: dict[str, Any] | None, live: dict[str, Any]) -> None:
        pass


def test_a_playbooks_question_is_not_the_watchers_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "BEAT_SECONDS", 0.0)
    of_run = {"id": "run-12-relieve-1", "kind": "playbook", "text": "may it restart?"}
    own = {"id": "3", "kind": "promotion", "text": "promote?"}
    daemon = AskingDaemon([of_run], [own, of_run])
    asked: list[str] = []

    def ask(text: str) -> bool:
        asked.append(text)
        return False

    foreground.through_daemon(daemon, "act", None, NoDisplay(), ask)
    assert asked == ["promote?"]
    assert daemon.posted[1:] == [("approvals/3", {"answer": "decline"})]


def test_without_traffic_it_says_what_a_campaign_would_need(
    config: str, engine: EngineStand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", "--mode", "act", "--minutes", "0.1", "--json", "-c", config]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["decision"] == "too_thin"
    assert report["winner"] is None
    assert report["reasons"]
    assert engine.changes == []


def test_an_interrupt_ends_it_with_the_incumbent_in_force(config: str, engine: EngineStand) -> None:
    with started("tune", "--mode", "act", "--json", "-c", config) as process:
        said(process, "phase look")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 1
    assert json.loads(out)["decision"] == "aborted"
    assert engine.values == LAUNCH
    assert engine.lease is None


def test_where_nobody_can_be_asked_advise_means_no(
    config: str, engine: EngineStand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", "--mode", "advise", "-c", config]) == 0
    told = capsys.readouterr()
    assert "declined, as nobody is here to ask" in told.err
    assert "the campaign was declined" in told.out
    assert engine.changes == []


def test_the_running_daemon_runs_it_and_goes_on_when_the_watcher_leaves(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with started("run", "-c", config) as daemon:
        said(daemon, "look at")
        with started("tune", "--mode", "act", "-c", config) as watcher:
            said(watcher, "phase look")
            watcher.send_signal(signal.SIGINT)
            _, err = watcher.communicate(timeout=WAIT_SECONDS)
        assert watcher.returncode == 130
        assert "the campaign goes on in the daemon" in err
        assert run(["tune", "--mode", "act", "-c", config]) == 1
        assert "a campaign runs already" in capsys.readouterr().err
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=WAIT_SECONDS)
    assert daemon.returncode == 0
    assert run(["report", "--json", "-c", config]) == 0
    assert json.loads(capsys.readouterr().out)["reasons"] == ["the daemon was stopped"]
