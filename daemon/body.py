"""The running daemon as the web server sees it (`web.body.Body`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from change.apply import ChangeRefused
from change.host import HostChange, HostError
from change.host_knobs import parse_change
from change.journal import JournalUnwritable
from change.lock import LockError
from change.server import Settings
from collectors.history import History
from collectors.runner import Runner
from daemon import assembly, live
from daemon.acting.playbooks import Playbooks
from daemon.adaptive import Adaptive
from daemon.alerting.assembly import Alerting
from daemon.alerting.receiving import Receiving
from daemon.campaigns import Campaigns
from daemon.cold import Cold
from daemon.config import Config
from daemon.engine_watch import EngineWatch
from daemon.host_lane import HostLane
from daemon.host_side import HostSide
from daemon.host_values import HostValues
from daemon.knob_rows import host_rows, knob_rows
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.orders import Orders
from store import StoreError
from web.body import Refused


class DaemonBody:
    """Answers from what the loops saw last, and passes orders on."""

    def __init__(
        self,
        *,
        config: Config,
        watch: EngineWatch,
        campaigns: Campaigns,
        orders: Orders,
        host: HostLane,
        modes: Modes,
        notices: Notices,
        history: History,
        runner: Runner,
        clock: Callable[[], float],
        alerting: Alerting,
        playbooks: Playbooks,
        receiving: Receiving,
        cold: Cold | None = None,
        tried_host: HostSide | None = None,
        adaptive: Adaptive | None = None,
    ) -> None:
        """`tried_host` is the host whose knobs a campaign tries, where it is not that of `host`."""
        self._config = config
        self._watch = watch
        self._campaigns = campaigns
        self._orders = orders
        self._host = host
        self._modes = modes
        self._notices = notices
        self._history = history
        self._runner = runner
        self._clock = clock
        self._alerting = alerting
        self._playbooks = playbooks
        self._receiving = receiving
        self._effective = assembly.effective_reader(config)
        self._cold = cold
        self._adaptive = adaptive
        self._host_values = HostValues((host if tried_host is None else tried_host).hand)

    def live(self, now: float) -> dict[str, Any]:
        """Describe this moment; see `web.shapes.Live`."""
        slo = {key: value for key, value in self._config.slo.model_dump().items() if value is not None}
        campaign = self._campaigns.status()
        self._host_values.told(campaign, now)
        pending = self._pending()
        return {
            "now": now,
            "mode": self._modes.mode,
            "paused": self._modes.paused,
            "stopped": self._modes.stopped(now),
            "engine": self._engine(),
            "host": self._host_values.shown(),
            "restart": live.restart(None if self._cold is None else self._cold.progress, now),
            "devices": live.devices(self._history),
            "queue": live.queue(self._history),
            "latency": live.latency(self._history, now),
            "throughput": live.throughput(self._history, now),
            "signs": live.signs(self._history),
            "slo": slo or None,
            "sources": live.sources(self._runner.health()),
            "campaign": campaign,
            "pending": next(iter(pending), None),
            "approvals": pending,
            "adaptive": None if self._adaptive is None else self._adaptive.status(),
            "alerts_firing": self._alerting.firing,
            "last_campaign": self._last_campaign(),
            "notices": live.notices(self._notices.standing()),
        }

    def alerts(self) -> dict[str, Any]:
        """Current alerts and the rules with their health; see `web.alert_shapes.Alerts`."""
        return self._alerting.view()

    async def knobs(self) -> list[dict[str, Any]]:
        """List the catalogue as it applies to this engine and its host, with the values in force."""
        state, probe, kind = self._watch.state, self._watch.probe, self._config.engine.kind_or_vllm
        settings = await self._effective.read(kind, state=state, log=()) if self._watch.reachable else None
        await self._look_at_host()
        known = self._host_values.known
        return knob_rows(
            kind if state is None else state.engine,
            (None if probe is None else probe.version) if state is None else state.engine_version,
            None if state is None else state.values,
            {} if state is None else state.floors,
            {} if state is None else state.ceilings,
            settings=settings,
        ) + host_rows(known, {*known, *self._config.host.knobs})

    async def apply(self, values: Settings, *, restart: bool = False) -> dict[str, Any]:
        """Apply knob values by hand; a running campaign ends before a restart."""
        if restart:
            await self._campaigns.stop("the engine is restarted by hand", self._clock())
        await self._give_way("a change by hand")
        with _refusals():
            return await self._orders.apply(values, "operator", self._clock(), restart=restart)

    async def rollback(self, n: int) -> dict[str, Any]:
        """Take back the last `n` changes."""
        await self._give_way("a rollback")
        with _refusals():
            done = await self._orders.rollback(n, "operator", self._clock())
        await self._look_at_host(changed=True)
        return done

    async def host_apply(self, changes: Mapping[str, str]) -> dict[str, Any]:
        """Change knobs of the host lane by hand."""
        await self._give_way("a change of the host by hand")
        with _refusals():
            done = await self._host.apply(_changes(changes), "operator", self._clock())
        await self._look_at_host(changed=True)
        return done

    async def host_rollback(self, n: int) -> dict[str, Any]:
        """Take back the last `n` changes of the host lane."""
        await self._give_way("a rollback of the host")
        with _refusals():
            done = await self._host.rollback(n, "operator", self._clock())
        await self._look_at_host(changed=True)
        return done

    async def pause(self) -> dict[str, Any]:
        """Stop the mind; a running trial goes back to the incumbent at once."""
        note = self._modes.pause()
        await self._campaigns.stop("paused", self._clock())
        await self._give_way("paused")
        return {"paused": True, "note": note}

    async def resume(self) -> dict[str, Any]:
        """Let the mind go on."""
        note = self._modes.resume()
        return {"paused": self._modes.paused, "note": note}

    async def detach(self) -> dict[str, Any]:
        """Put the launch values back, forget the promotion, and stay paused so that nothing begins again."""
        await self.pause()
        with _refusals():
            host = await self._host.detach("operator", self._clock())
            done = await self._orders.detach("operator", self._clock()) | {"host": host}
        await self._look_at_host(changed=True)
        return done

    async def tune(
        self, mode: Literal["advise", "act"], minutes: float | None, restarts: int | None = None
    ) -> dict[str, Any]:
        """Start a campaign."""
        await self._give_way("a campaign begins")
        with _refusals():
            return await self._campaigns.start(mode, minutes, self._clock(), restarts)

    def playbooks(self) -> list[dict[str, Any]]:
        """List the playbooks; see `web.run_shapes.Playbook`."""
        return self._playbooks.listed()

    async def run_playbook(self, name: str, labels: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
        """Have a playbook walk."""
        driver = self._playbooks.driver
        if driver is None:
            raise Refused("playbooks are switched off: playbooks.enabled is false")
        with _refusals():
            return driver.order(name, labels, dry_run=dry_run)

    async def approve(self, id: str) -> dict[str, Any]:
        """Say yes to what waits."""
        driver = self._playbooks.driver
        if driver is not None and driver.asks(id):
            return driver.answer(id, yes=True)
        return await self._campaigns.approve(id)

    async def decline(self, id: str) -> dict[str, Any]:
        """Say no to what waits."""
        driver = self._playbooks.driver
        if driver is not None and driver.asks(id):
            return driver.answer(id, yes=False)
        return await self._campaigns.decline(id, self._clock())

    def _pending(self) -> list[dict[str, Any]]:
        campaign = self._campaigns.pending()
        driver = self._playbooks.driver
        return [*([] if campaign is None else [campaign]), *([] if driver is None else driver.pending())]

    async def alertmanager(self, body: bytes) -> dict[str, Any]:
        """Take a post of Alertmanager's webhook."""
        return await self._receiving.take(body)

    async def _give_way(self, reason: str) -> None:
        """One change at a time: the adaptive mode lets go of the engine before anything else changes it."""
        if self._adaptive is not None:
            await self._adaptive.give_way(reason, self._clock())

    async def _look_at_host(self, *, changed: bool = False) -> None:
        """A campaign that runs tells the values itself, and must not wait for a reading."""
        if not self._campaigns.running:
            await self._host_values.read(self._clock(), changed=changed)

    def _last_campaign(self) -> dict[str, Any] | None:
        report = self._campaigns.last_report
        return (
            None if report is None else {key: report.get(key) for key in ("campaign", "decision", "reasons")}
        )

    def _engine(self) -> dict[str, Any]:
        state, probe = self._watch.state, self._watch.probe
        known: dict[str, Any] = {
            "url": self._config.engine.url,
            "reachable": self._watch.reachable,
            "name": None,
            "version": None if probe is None else probe.version,
            "model": None if probe is None else probe.model,
        }
        if state is None:
            return known
        return known | {
            "name": state.engine,
            "version": state.engine_version,
            "plugin": state.plugin,
            "boot_id": state.boot_id,
            "epoch": state.epoch,
            "values": dict(state.values),
            "effective": dict(state.values),
            "launch": None if self._watch.launch is None else dict(self._watch.launch),
            "ceilings": dict(state.ceilings),
            "floors": dict(state.floors),
            "lease_remaining_seconds": state.lease_remaining_seconds,
            "gate": state.gate,
        }


def _changes(changes: Mapping[str, str]) -> list[HostChange]:
    try:
        return [parse_change(f"{knob}={value}") for knob, value in changes.items()]
    except ValueError as error:
        raise ChangeRefused(str(error)) from error


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (ChangeRefused, HostError, LockError, JournalUnwritable, StoreError) as error:
        raise Refused(str(error)) from error
