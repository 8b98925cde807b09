"""A living daemon between a real Prometheus and a real Alertmanager: one rule, seen alike, told, silenced, over."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from daemon.alerting.addressee import ENGINE_LABEL, engine_name
from daemon.alerting.assembly import read_rules
from rules.export import export
from tests.daemon.engine_stand import EngineStand
from tests.daemon.living import Running, config_for, running
from tests.prepare import find_program
from tests.real.engine import free_port
from tests.rules.alertmanager.real_alertmanager import RealAlertmanager, ended
from tests.rules.alertmanager.real_alertmanager import until as wait_until

pytestmark = [pytest.mark.debian("prometheus"), pytest.mark.usefixtures("quick")]

RULES = """
groups:
  - name: smoke
    interval: 1s
    rules:
      - alert: Paused
        expr: trimtab_paused == 1
        for: 2s
        labels: {severity: warning}
        annotations: {summary: "paused: {{ $value }}"}
        playbook: stop_walking
"""
PLAYBOOK = """
playbooks:
  - name: stop_walking
    title: Look at a pause
    description: It looks, and says what it saw.
    guide: none
    target: engine
    cooldown: 1h
    steps:
      - name: look
        check: trimtab_paused == 1
      - name: cause
        diagnose: somebody paused it
        cause: paused
"""
WEBHOOK_ALERT = "FromElsewhere"


class RealPrometheus:
    """One Prometheus on loopback that reads one target and one rule file each second."""

    def __init__(self, folder: Path, target: str, rules: str, labels: dict[str, str]) -> None:
        folder.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        (folder / "rules.yml").write_text(rules)
        jobs = [{"job_name": "trimtab", "static_configs": [{"targets": [target], "labels": labels}]}]
        every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config = {"global": every, "scrape_configs": jobs, "rule_files": ["rules.yml"]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        program = find_program("prometheus")
        assert program is not None
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--config.file={folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def states(self) -> dict[str, tuple[str, str]]:
        """State and summary of its alerts, by name."""
        try:
            answer = httpx2.get(f"{self.url}/api/v1/alerts", timeout=5).json()
        except httpx2.HTTPError:
            return {}
        return {
            one["labels"]["alertname"]: (one["state"], one["annotations"]["summary"])
            for one in answer["data"]["alerts"]
        }

    def stop(self) -> None:
        """End it, and wait for it."""
        ended(self._process)


async def until(condition: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(wait_until, condition)


async def seen(one: Running) -> list[tuple[str, str]]:
    alerts = (await one.http.get("/api/v1/alerts")).json()["alerts"]
    return [(alert["name"], alert["state"]) for alert in alerts]


async def runs(one: Running) -> list[dict[str, Any]]:
    return list((await one.http.get("/api/v1/runs")).json())


async def until_page(one: Running, condition: Callable[[Any], bool], read: Callable[[Running], Any]) -> Any:
    deadline = time.monotonic() + 60.0
    while not condition(found := await read(one)):
        assert time.monotonic() < deadline, f"it did not come to that: {found}"
        await asyncio.sleep(0.1)
    return found


def test_one_rule_is_seen_alike_and_told_silenced_kept_over_a_restart_and_walked_once(
    tmp_path: Path, engine: EngineStand
) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "playbooks.yaml").write_text(PLAYBOOK)
    config = config_for(
        tmp_path,
        engine,
        rules={"shipped": False, "files": [str(tmp_path / "rules.yaml")]},
        playbooks={"shipped": False, "files": [str(tmp_path / "playbooks.yaml")]},
        mode="act",
    )
    real = RealAlertmanager(tmp_path / "am")
    config = config.model_copy(
        update={
            "alertmanagers": config_for(tmp_path, engine, alertmanagers=[{"url": real.url}]).alertmanagers
        }
    )

    async def story() -> None:
        async with running(config) as one:
            page = str(one.http.base_url).rstrip("/")
            real.configure({"url": f"{page}/api/v1/alertmanager"})
            of = (ENGINE_LABEL, engine_name(config))
            exported = export(read_rules(config), of)
            target = page.removeprefix("http://")
            prometheus = RealPrometheus(tmp_path / "prometheus", target, exported, dict([of]))
            try:
                await asyncio.to_thread(real.start)
                # Pausing stops playbooks too, so this run is refused; that both see the alert is what counts.
                assert (await one.http.post("/api/v1/pause", json={})).status_code == 200
                await until(lambda: real.alerts().get("Paused"))
                assert await until(lambda: prometheus.states().get("Paused", ("", ""))[0] == "firing")
                assert prometheus.states()["Paused"] == ("firing", "paused: 1")
                assert ("Paused", "firing") in await seen(one)
                assert real.alerts()["Paused"]["annotations"]["summary"] == "paused: 1"

                # It forgets everything in its restart, and is told again.
                await asyncio.to_thread(real.stop)
                await asyncio.to_thread(real.start)
                await asyncio.to_thread(real.silence, "Paused")

                assert (await one.http.post("/api/v1/resume", json={})).status_code == 200
                await until(lambda: "Paused" not in prometheus.states())
                await until_page(one, lambda found: ("Paused", "resolved") in found, seen)

                # What its webhook brings walks once, however often it repeats.
                labels = {"alertname": WEBHOOK_ALERT, "playbook": "stop_walking"}
                await asyncio.to_thread(real.post, WEBHOOK_ALERT, labels=labels)
                walked = await until_page(
                    one, lambda found: any(run["source"] == "alertmanager" for run in found), runs
                )
                await asyncio.sleep(3.0)  # it repeats each second
                again = [run for run in await runs(one) if run["source"] == "alertmanager"]
                assert [run["id"] for run in again] == [
                    run["id"] for run in walked if run["source"] == "alertmanager"
                ]
            finally:
                await asyncio.to_thread(prometheus.stop)
                await asyncio.to_thread(real.stop)

    asyncio.run(story())
