"""A daemon with rules: its alerts are on the page, in the metrics and in the store, over its own restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.daemon.engine_stand import EngineStand
from tests.daemon.living import Running, config_for, running

RULES = """\
groups:
  - name: g
    interval: 1s
    rules:
      - {alert: Seen, expr: 'trimtab_collector_success{collector="vllm"} >= 0', labels: {severity: info}, playbook: p}
      - {alert: Paused, expr: 'trimtab_paused == 0 and on () trimtab_mode{mode="act"} == 1', labels: {severity: info}}
      - {alert: Itself, expr: 'sum(trimtab_alerts{alertname="Seen"}) > 0', labels: {severity: info}}
      - {alert: Never, expr: trimtab_engine_requests_waiting > 1e9}
"""


async def fires(one: Running, name: str) -> dict[str, Any]:
    """Wait until an alert fires."""
    for _ in range(1500):
        told = (await one.http.get("/api/v1/alerts")).json()
        for alert in told["alerts"]:
            if alert["name"] == name and alert["state"] == "firing":
                return dict(alert)
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} did not fire: {told}")


def test_alerts_are_shown_exported_and_kept_over_a_restart(tmp_path: Path, engine: EngineStand) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    config = config_for(tmp_path, engine, rules={"shipped": False, "files": [str(path)]})

    async def scenario() -> None:
        async with running(config) as one:
            first = await fires(one, "Seen")
            assert first["labels"]["collector"] == "vllm" and first["playbook"] == "p"
            await fires(one, "Paused")
            await fires(one, "Itself")
            page = (await one.http.get("/metrics")).text
            assert 'trimtab_alerts{alertname="Seen",severity="info",state="firing"} 1.0' in page
            assert 'trimtab_rule_group_last_evaluation_timestamp_seconds{rule_group="g"}' in page
        async with running(config) as again:
            second = await fires(again, "Seen")
            assert second["fired_at"] == first["fired_at"]
            assert second["fingerprint"] == first["fingerprint"]

    asyncio.run(scenario())


def test_the_rules_that_are_shipped_are_evaluated_by_default(tmp_path: Path, engine: EngineStand) -> None:
    config = config_for(tmp_path, engine)

    async def scenario() -> None:
        async with running(config) as one:
            for _ in range(1500):
                told = (await one.http.get("/api/v1/alerts")).json()
                rules = [rule for group in told["groups"] for rule in group["rules"]]
                if rules and all(rule["health"] != "unknown" for rule in rules):
                    break
                await asyncio.sleep(0.02)
            assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
            assert told["trouble"] is None

    asyncio.run(scenario())
