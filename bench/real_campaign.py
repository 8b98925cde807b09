"""Campaigns on a real vLLM server on the CPU under live traffic: `trimtab tune` as an operator runs it."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from change.engine import Values
from tests.real.engine import PATIENCE_SECONDS, RealEngine, warm_up
from tests.real.traffic import Traffic, TrafficReport

RATE = 8.0
"""Requests per second, where the server can do more than that."""
LOAD = 0.5
"""Else the share of what it can do as launched: machines differ several times over, and a small budget costs some."""
AT_ONCE = 24
CAPACITY_SECONDS = 20.0
ARGUMENTS = ("--max-num-seqs", "32", "--max-num-batched-tokens", "4096")
MIN_EFFECT = 0.3
"""Far under the gain seen by hand (ITL p99 35 to 16 ms at 128); the default of 3% needs days of this traffic."""


@dataclass(frozen=True, slots=True)
class RealCampaign:
    """One campaign's report, what it tried, what became of the clients' requests, and what the engine then held."""

    report: dict[str, Any]
    trials: list[dict[str, Any]]
    traffic: TrafficReport
    serving: Values

    @property
    def as_told(self) -> bool:
        """Whether the engine holds what the report says, and held what was asked of it in every trial."""
        told = self.report.get("winner") or self.report.get("incumbent") or {}
        return dict(self.serving) == told and all(trial["state"] != "invalid" for trial in self.trials)


def configuration(
    engine: RealEngine,
    folder: Path,
    minutes: float,
    knobs: Sequence[str],
    slo: Mapping[str, float],
    min_effect: float,
) -> Path:
    """Write the operator's file: ITL p99 is the objective, no other metric is judged."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trimtab.yaml"
    document = {
        "mode": "act",
        "engine": {
            "url": engine.url,
            "token_file": str(engine.token_file),
            "run_dir": str(folder / "run"),
            "timeout_seconds": PATIENCE_SECONDS,
        },
        "slo": dict(slo),
        "tune": {
            "objective": {"name": "itl", "quantile": 0.99},
            "knobs": list(knobs),
            "min_effect": min_effect,
            "max_regression": 1.0,
            "minutes": minutes,
        },
        "collect": {"npu_smi": {"enabled": False}},
        "store": {"url": f"sqlite:///{folder / 'trimtab.db'}"},
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def run_campaign(
    engine: RealEngine,
    folder: Path,
    *,
    minutes: float,
    knobs: Sequence[str],
    rate: float,
    slo: Mapping[str, float] | None = None,
    min_effect: float = MIN_EFFECT,
    seed: int,
) -> RealCampaign:
    """Run one campaign under `rate` requests per second; the engine is left as the campaign leaves it."""
    path = configuration(engine, folder, minutes, knobs, slo or {}, min_effect)
    traffic = Traffic(engine, rate, seed=seed)
    load = asyncio.create_task(traffic.run(minutes * 60 + 120))
    try:
        report = json.loads(await _trimtab("tune", "-c", str(path), "--json"))
        trials = json.loads(await _trimtab("trials", "-c", str(path), "--json"))["trials"]
    finally:
        traffic.end()
        sent = await load
    return RealCampaign(report, trials, sent, await values(engine))


async def values(engine: RealEngine) -> Values:
    """What the engine holds."""
    async with engine.hot() as control:
        return (await control.state()).values


async def ttft_p50(engine: RealEngine, rate: float, seconds: float, seed: int) -> float:
    """Median TTFT in seconds of what the engine holds, under the campaigns' traffic, by the plugin's own timings."""
    async with engine.hot() as control:
        since = (await control.requests(0)).next_since
        await Traffic(engine, rate, seed=seed).run(seconds)
        records = (await control.requests(since)).records
    return statistics.median(r.first_token - r.arrival for r in records if r.first_token is not None)


async def fair_rate(engine: RealEngine) -> float:
    """Requests per second: `RATE`, or `LOAD` of what the server finishes while `AT_ONCE` wait for it all the time."""
    began = time.monotonic()
    done = await Traffic(engine, 100.0, seed=0, at_once=AT_ONCE).run(CAPACITY_SECONDS)
    capacity = done.succeeded / (time.monotonic() - began)
    rate = min(RATE, LOAD * capacity)
    print(f"traffic: {rate:.1f} requests/s; the server can do {capacity:.1f} as launched", flush=True)
    return rate


async def restore(engine: RealEngine, values: Values) -> None:
    """Give the engine back what it held, so that the next campaign begins where the last one did."""
    async with engine.hot() as control:
        state = await control.state()
        await control.set_knobs(values, if_epoch=state.epoch, lease_seconds=None)


async def _trimtab(*arguments: str) -> str:
    program = Path(sys.executable).with_name("trimtab")
    child = await asyncio.create_subprocess_exec(
        program, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=None
    )
    out, _ = await child.communicate()
    if not out:
        raise RuntimeError(f"trimtab {' '.join(arguments)} ended with {child.returncode} and said nothing")
    return out.decode()


def figures(campaign: RealCampaign) -> str:
    """The figures of one campaign on a few lines."""
    report, sent = campaign.report, campaign.traffic
    effect, switch = report.get("effect") or {}, report.get("switch_seconds") or {}
    lines = [
        f"decision {report['decision']}, winner {_changed(report)}; the engine"
        f" {'holds' if campaign.as_told else 'DOES NOT HOLD'} what was told: {dict(campaign.serving)}",
        f"effect on ITL p99: {_percent(effect, 'median')} ({_percent(effect, 'low')} to {_percent(effect, 'high')}),"
        f" detectable {report.get('detectable_effect') or 0:.0%}",
        f"other metrics: { ({k: f'{v:+.0%}' for k, v in (report.get('other_metrics') or {}).items()}) }",
        f"trials {report.get('trials')}, blocks {report.get('blocks')}, pairs {report.get('pairs')},"
        f" switch p50 {1000 * (switch.get('p50') or 0):.1f} ms, p99 {1000 * (switch.get('p99') or 0):.1f} ms",
        f"clients: {sent.sent} requests, {len(sent.failures)} failed {sent.failures[:3]};"
        f" ITL p99 seen by clients {1000 * _p99(sent.gaps):.1f} ms",
        f"because {'; '.join(report.get('reasons') or [])}",
    ]
    rows = [
        f"  trial {row['number']} {row['values']} {row['state']}: {row['reason']}" for row in campaign.trials
    ]
    return "\n".join([*lines, *rows])


def _changed(report: Mapping[str, Any]) -> dict[str, float] | None:
    winner = report.get("winner")
    incumbent = report.get("incumbent") or {}
    return None if winner is None else {k: v for k, v in winner.items() if incumbent.get(k) != v}


def _percent(effect: Mapping[str, float], name: str) -> str:
    return f"{effect[name]:+.0%}" if effect.get(name) is not None else "unknown"


def _p99(gaps: Sequence[float]) -> float:
    return statistics.quantiles(gaps, n=100)[98] if len(gaps) > 100 else 0.0


def started(folder: Path) -> RealEngine:
    """A server as the measurements have it, not yet started."""
    return RealEngine("0.32.0", ARGUMENTS, folder=folder)


async def warm(engine: RealEngine) -> None:
    """A fresh server and a warm one differ."""
    await warm_up(engine)
