"""An engine that is killed, or stands still, under a real `trimtab serve` with its real daemon: back by its playbook.

The engine is a stand-in; `tests/real/test_playbooks_real.py` does the same with vLLM and the shipped rules.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import yaml

from tests.daemon.test_restart_whole import Whole

pytestmark = pytest.mark.campaign
OWN_LIMIT_SECONDS = 30.0

RULES = """
groups:
  - name: own
    interval: 1s
    rules:
      - alert: Down
        expr: >-
          trimtab_collector_success{collector="vllm"} == 0
          and max_over_time(trimtab_collector_success{collector="vllm"}[1h]) == 1
        for: 2s
        labels: {severity: critical}
        annotations: {summary: down}
        playbook: again
        description: The page served and does not answer.
"""
PLAYBOOKS = """
playbooks:
  - name: again
    title: Start it again
    description: A restart, and a look.
    cooldown: 2min
    steps:
      - {name: cause, diagnose: "the page does not answer", cause: down}
      - name: restart
        act: {kind: restart}
        timeout: 2min
      - name: back
        verify: trimtab_collector_success{collector="vllm"} == 1
        within: 30s
"""


class Rescued(Whole):
    """The pair in mode act, with one rule and one playbook."""

    def configure(self) -> None:
        """Write the operator's file anew, and have the next daemon read it."""
        values = yaml.safe_load(self.config.read_text())
        (self.folder / "rules.yaml").write_text(RULES)
        (self.folder / "playbooks.yaml").write_text(PLAYBOOKS)
        values["mode"] = "act"
        values["engine"]["timeout_seconds"] = 2
        values["rules"] = {"shipped": False, "files": [str(self.folder / "rules.yaml")]}
        values["playbooks"] = {"shipped": False, "files": [str(self.folder / "playbooks.yaml")]}
        self.config.write_text(yaml.safe_dump(values))
        daemon = self.daemon()
        daemon.terminate()
        daemon.wait(30)
        self.until(lambda: (ask(self, "live") or {}).get("mode") == "act", "a daemon in mode act")
        # The guardian has its word, and the rule has seen the page answer.
        time.sleep(4)

    def until(self, holds: Callable[[], object], what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert self.process.poll() is None, self.output.read_text()[-3000:]
            assert time.monotonic() < deadline, f"no {what}: {self.output.read_text()[-3000:]}"
            time.sleep(0.1)

    def runs(self) -> list[dict[str, Any]]:
        return ask(self, "runs") or []


def ask(pair: Whole, path: str) -> Any:
    for file in (pair.folder / "run").glob("daemon-*.json"):
        try:
            url = json.loads(file.read_text())["url"].rstrip("/")
            answer = httpx2.get(f"{url}/api/v1/{path}", trust_env=False, timeout=10)
        except (httpx2.HTTPError, ValueError, OSError):
            return None
        return answer.json() if answer.status_code == 200 else None
    return None


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Rescued]:
    stand = Rescued(tmp_path)
    try:
        stand.up()
        stand.configure()
        yield stand
    finally:
        stand.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_it_is_noticed_and_serves_again_in_time(pair: Rescued, number: signal.Signals) -> None:
    (engine,) = pair.engines()
    broken = time.time()
    os.kill(engine, number)
    pair.until(lambda: [run for run in pair.runs() if run["ended"]], "run that ended")
    run = ask(pair, f"runs/{pair.runs()[-1]['id']}")
    assert run["state"] == "succeeded", run
    (act,) = run["acts"]
    figures = act["outcome"]["figures"]
    assert figures["engine_was"] == ("dead" if number == signal.SIGKILL else "stalled")
    detected = run["queued"] - broken
    assert detected + figures["own_seconds"] <= OWN_LIMIT_SECONDS, (detected, figures)
    (now,) = pair.engines()
    assert now != engine
    assert not psutil.pid_exists(engine)
    answer = httpx2.post(f"{pair.url}/v1/completions", json={"prompt": "x"}, trust_env=False, timeout=10)
    assert answer.status_code == 200
    assert pair.process.poll() is None
