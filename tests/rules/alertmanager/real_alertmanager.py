"""Debian's Alertmanager on loopback, with intervals of seconds; each instance is ended by its own process."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml

from rules.alertmanager.payload import rfc3339
from tests.prepare import find_program
from tests.real.engine import free_port

WAIT_SECONDS = 60.0
ROUTE = {"receiver": "trimtab", "group_wait": "100ms", "group_interval": "1s", "repeat_interval": "1s"}
INHIBITION = {"source_matchers": ['alertname="NodeDown"'], "target_matchers": ['alertname="Inhibited"']}


def ended(process: subprocess.Popen[bytes]) -> None:
    """End a program of ours, and wait for it."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)


def until(condition: Callable[[], Any]) -> Any:
    """Wait for what must come; the answer is what the condition gave."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)
    return found


class RealAlertmanager:
    """One instance: started and stopped as often as a test wants, on the same port."""

    def __init__(
        self, folder: Path, webhook: Mapping[str, Any] | None = None, *, cluster: int = 0, peer: int = 0
    ) -> None:
        """`cluster` is its port in a cluster, none alone; `peer` that of an instance to join."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        folder.mkdir(parents=True)
        self._folder = folder
        self.configure(webhook)
        self._cluster = [f"--cluster.listen-address={f'127.0.0.1:{cluster}' if cluster else ''}"]
        self._cluster += ["--cluster.settle-timeout=0s"] if cluster else []
        self._cluster += [f"--cluster.peer=127.0.0.1:{peer}"] if peer else []
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, webhook: Mapping[str, Any] | None) -> None:
        """Say where it posts to, before it starts."""
        receiver = {"name": "trimtab", "webhook_configs": [dict(webhook)] if webhook else []}
        config = {"route": ROUTE, "receivers": [receiver], "inhibit_rules": [INHIBITION]}
        (self._folder / "alertmanager.yml").write_text(yaml.safe_dump(config))

    def start(self) -> None:
        """Start it and wait until it is ready."""
        program = find_program("alertmanager")
        assert program is not None
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--config.file={self._folder / 'alertmanager.yml'}",
                    f"--storage.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    *self._cluster,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._ready)

    def stop(self) -> None:
        """End it, and wait for it."""
        if self._process is None:
            return
        ended(self._process)
        self._process = None

    def alerts(self) -> dict[str, dict[str, Any]]:
        """The alerts it has, by name."""
        found = httpx2.get(f"{self.url}/api/v2/alerts", timeout=10).json()
        return {alert["labels"]["alertname"]: alert for alert in found}

    def post(self, *names: str, over: bool = False, **more: Any) -> None:
        """Send it alerts as somebody else would."""
        now = time.time()
        ends = {"endsAt": rfc3339(now - 1)} if over else {}
        body = [
            {"labels": {"alertname": name}, "startsAt": rfc3339(now - 60), **ends, **more} for name in names
        ]
        httpx2.post(f"{self.url}/api/v2/alerts", json=body, timeout=10).raise_for_status()

    def silence(self, name: str) -> str:
        """Silence alerts of a name for an hour; the answer is the silence's id."""
        now = time.time()
        silence = {
            "matchers": [{"name": "alertname", "value": name, "isRegex": False, "isEqual": True}],
            "startsAt": rfc3339(now),
            "endsAt": rfc3339(now + 3600),
            "createdBy": "a test",
            "comment": "on purpose",
        }
        answer = httpx2.post(f"{self.url}/api/v2/silences", json=silence, timeout=10)
        return str(answer.raise_for_status().json()["silenceID"])

    def end_silence(self, id: str) -> None:
        """End a silence."""
        httpx2.delete(f"{self.url}/api/v2/silence/{id}", timeout=10).raise_for_status()

    def log(self) -> str:
        """What it said."""
        return (self._folder / "log").read_text(errors="replace")

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        try:
            return httpx2.get(f"{self.url}/-/ready", timeout=5).status_code == 200
        except httpx2.HTTPError:
            return False


@contextlib.contextmanager
def standing(*instances: RealAlertmanager) -> Iterator[None]:
    """Start all, and end them with the block."""
    try:
        for one in instances:
            one.start()
        yield
    finally:
        for one in instances:
            one.stop()
