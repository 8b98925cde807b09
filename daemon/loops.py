"""The daemon's life: loops that collect, watch the engine, drive the campaign and serve the web."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog
from fastapi import FastAPI

from change.engine import EngineControl
from change.journal import Journal
from collectors.history import History
from collectors.runner import Runner
from collectors.sample import Sample
from daemon import adaptive, assembly, credentials
from daemon.acting.playbooks import Playbooks
from daemon.acting.received import ReceivedRuns
from daemon.alerting.assembly import Alerting
from daemon.alerting.receiving import Receiving
from daemon.alerting.sending import SEND_SECONDS, Sending
from daemon.body import DaemonBody
from daemon.campaigns import Campaigns
from daemon.canary import canary as build_canary
from daemon.canary import canary_control
from daemon.cold import Cold
from daemon.cold_assembly import cold_lane
from daemon.config import Config
from daemon.engine_probe import EngineProbe
from daemon.engine_watch import EngineWatch, Probing
from daemon.errors import ConfigError
from daemon.exporter import Exporter, SelfState
from daemon.host_side import HostSide
from daemon.host_watch import HostWatch, after_restart
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.orders import Orders
from daemon.patient_store import PatientStore
from daemon.presence import announced
from daemon.supervisor import Supervisor
from daemon.switch_count import CountedControl
from daemon.web_server import add_metrics, allowed_hosts, end, listen, local_url, server
from store import StoreError
from store.retention import forget
from web.app import create_app
from web.bind import UnsafeBind, check_bind

WATCH_SECONDS = 2.0
HOST_SECONDS = 10.0
ALERT_SECONDS = 1.0
PLAYBOOK_SECONDS = 1.0
CAMPAIGN_SECONDS = 1.0
HOUSEKEEPING_SECONDS = 60.0
FORGET_SECONDS = 24 * 3600.0
LEAST_SPACE_BYTES = 16 * 1024 * 1024

log = structlog.get_logger("trimtab")


class Daemon:
    """Everything that runs beside one engine."""

    def __init__(
        self,
        config: Config,
        control: EngineControl,
        probe: Probing,
        clock: Callable[[], float] = time.time,
        runner: Callable[[History], Runner] | None = None,
        draw_seed: Callable[[], int] = lambda: secrets.randbits(32),
        cold: Callable[[EngineControl, Journal, History, Modes, Notices], Cold | None] | None = None,
        tried_host: HostSide | None = None,
        canary: EngineControl | None = None,
    ) -> None:
        """`runner` builds what reads the sources, where they are not the configuration's own; `cold` the cold lane.

        `tried_host` is the host whose knobs a campaign tries, where it is not the one this process runs on; `canary`
        is the hot lane of the replica that `tune.canary` names.
        """
        self.stop = asyncio.Event()
        self._config = config
        self._clock = clock
        self._notices = Notices(clock)
        self._history = History()
        self._store = PatientStore(config.store_url, clock)
        self._control = CountedControl(control)
        self._modes = assembly.modes(config)
        self._runner = runner(self._history) if runner else assembly.runner(config, self._history)
        journal = Journal(self._store, config.engine.url)
        locks = assembly.lock_dir(config)
        self._cold = cold(self._control, journal, self._history, self._modes, self._notices) if cold else None
        self._canary = (
            None
            if canary is None
            else build_canary(config, canary, self._store, self._history, self._modes, self._notices)
        )
        host = assembly.host_lane(config, self._control, journal, self._history)
        self.campaigns = Campaigns(
            control=self._control,
            store=self._store,
            journal=journal,
            history=self._history,
            tune=config.tune,
            slo=config.slo.limits(),
            engine_url=config.engine.url,
            modes=self._modes,
            notices=self._notices,
            lock_dir=locks,
            ended=self._look_again,
            own_card=config.own_card,
            draw_seed=draw_seed,
            host=host if tried_host is None else tried_host,
            clock=clock,
            cold_lane=self._cold,
            restart=config.engine.restart,
            reapply_host=after_restart(host, self._notices),
            canary=self._canary,
        )
        self._exporter = Exporter(self._history, self._self_state, clock=clock, more=self._more_samples)
        self.alerting = Alerting(
            config, self._history, self._store, self._notices, clock(), self._exporter.own
        )
        self.campaigns.alert = self.alerting.campaign_alert()
        self.adaptive = adaptive.Adaptive(
            control=self._control,
            journal=journal,
            history=self._history,
            modes=self._modes,
            notices=self._notices,
            lock_dir=locks,
            section=config.tune.adaptive,
            slo=config.slo.limits(),
            lease_seconds=config.tune.lease_seconds,
            busy=lambda: self._busy() or self.playbooks.acting,
            ended=self._look_again,
            schedule=config.tune.schedule,
        )
        self._watch = EngineWatch(
            self._control,
            probe,
            journal,
            self._modes,
            self._notices,
            locks,
            busy=lambda: self._busy() or self.adaptive.active,
            unproven=self.campaigns.unproven,
        )
        self.sending = Sending(config, self._notices, clock)
        self.receiving = Receiving(self._store, config.engine.url, self.sending.sender, config.web, clock)
        self.playbooks = Playbooks(
            config,
            self.alerting.groups,
            control=self._control,
            store=self._store,
            journal=journal,
            history=self._history,
            modes=self._modes,
            notices=self._notices,
            campaigns=self.campaigns,
            host=host,
            cold=self._cold,
            clock=clock,
            silences=self.sending,
            sink=self.sending,
            give_way=self.adaptive.give_way,
            present=self._exporter.own,
        )
        self.campaigns.held = lambda: (
            "a playbook has changed something and has not ended" if self.playbooks.acting else None
        )
        if self.alerting.watch is not None:
            self.alerting.watch.alert_sinks.append(self.sending)
            self.alerting.watch.change_sinks.append(self.sending)
            if self.playbooks.driver is not None:
                self.alerting.watch.run_sinks.append(self.playbooks.driver)
        if self.playbooks.driver is not None:
            self.receiving.sinks.append(ReceivedRuns(self.playbooks.driver, clock))
        self._host_watch = HostWatch(host, self._modes, self._notices, busy=self._busy)
        self.body = DaemonBody(
            config=config,
            watch=self._watch,
            campaigns=self.campaigns,
            orders=Orders(self._control, journal, locks, cold=self._cold, host=host),
            host=host,
            modes=self._modes,
            notices=self._notices,
            history=self._history,
            runner=self._runner,
            clock=clock,
            alerting=self.alerting,
            playbooks=self.playbooks,
            receiving=self.receiving,
            cold=self._cold,
            tried_host=tried_host,
            adaptive=self.adaptive,
        )
        self._forget_at = 0.0

    def app(self) -> FastAPI:
        """The web application, with /metrics."""
        app = create_app(
            self.body,
            self._store,
            credentials.web_token(self._config),
            allowed_hosts(self._config.web),
            self._config.web.root_path,
            self._clock,
        )
        add_metrics(app, self._exporter)
        return app

    async def first_look(self) -> None:
        """Read every source and the engine once, so that a campaign begun right away knows where it is."""
        now = self._clock()
        await self._watch.tick(now)
        await self._runner.once(now)

    async def read(self, now: float) -> None:
        """Read every source once."""
        await self._runner.once(now)

    async def second(self, now: float) -> None:
        """What the loops do in one second, for a caller that keeps the time itself."""
        if self._cold is not None:
            await self._cold.tick(now)
        await self._watch.tick(now)
        await self.campaigns.tick(now)

    async def alert_second(self, now: float) -> None:
        """The same of the alerts and playbooks, beside it: they go on while a restart or a campaign takes its time."""
        if self.alerting.watch is not None:
            await self.alerting.watch.tick(now)
        if self.playbooks.driver is not None:
            await self.playbooks.driver.tick(now)

    async def run(self, listening: socket.socket | None) -> None:
        """Live until `stop` is set; a running campaign then ends, with the incumbent restored if that needs no restart.

        Start-up settings that are tried then serve on: the way back is a restart, which whoever ends this process
        might not wait for, and which the next one makes. Without a socket nothing is served.
        """
        supervisor = Supervisor(self._notices, self.stop, self._clock)
        async with asyncio.TaskGroup() as loops:
            loops.create_task(supervisor.keep("collecting", lambda: self._runner.run(self.stop)))
            loops.create_task(supervisor.every("engine", WATCH_SECONDS, self._watch.tick))
            loops.create_task(supervisor.every("host", HOST_SECONDS, self._host_watch.tick))
            loops.create_task(supervisor.every("campaign", CAMPAIGN_SECONDS, self.campaigns.tick))
            loops.create_task(supervisor.every("adaptive", adaptive.TICK_SECONDS, self.adaptive.tick))
            loops.create_task(supervisor.every("housekeeping", HOUSEKEEPING_SECONDS, self._keep_house))
            if self.alerting.watch is not None:
                loops.create_task(supervisor.every("alerts", ALERT_SECONDS, self.alerting.watch.tick))
            loops.create_task(supervisor.every("playbooks", PLAYBOOK_SECONDS, self.playbooks.walker.tick))
            if self._cold is not None:
                loops.create_task(supervisor.every("restarts", WATCH_SECONDS, self._cold.tick))
            loops.create_task(supervisor.every("received alerts", WATCH_SECONDS, self.receiving.tick))
            for name, tick in self.sending.loops(self.stop):
                loops.create_task(supervisor.every(name, SEND_SECONDS, tick))
            if self._canary is not None:
                loops.create_task(supervisor.every("canary", WATCH_SECONDS, self._canary.tick))
            if listening is not None:
                loops.create_task(supervisor.keep("web", lambda: self.serve(listening)))
        await self.playbooks.walker.finish()
        # A restart may take longer than whoever stops us waits: the next start takes back a candidate that serves.
        await self.campaigns.stop("the daemon was stopped", self._clock(), may_restart=False)
        await self.adaptive.give_way("the daemon was stopped", self._clock())
        if self._cold is not None:
            await self._cold.finish()
        if self._canary is not None:
            await self._canary.finish()
        await self.sending.close()
        self._store.close()

    async def serve(self, listening: socket.socket) -> None:
        """Serve the pages, the API and /metrics until `stop` is set."""
        app = self.app()
        web = server(app)

        async def end_with_the_daemon() -> None:
            await self.stop.wait()
            end(app, web)

        ending = asyncio.create_task(end_with_the_daemon())
        try:
            # A copy: the server closes what it is given, and may have to be started again.
            await web.serve(sockets=[listening.dup()])
        finally:
            ending.cancel()

    async def _keep_house(self, now: float) -> None:
        """Forget what is old, and notice a store that cannot be written before a change needs it."""
        try:
            with self._store.session():
                pass
            self._check_space()
            if now >= self._forget_at:
                forget(self._store, now - self._config.store.retention_days * 86400.0)
                self._forget_at = now + FORGET_SECONDS
        except StoreError as error:
            self._notices.say("store", f"{error}; nothing is changed until it can be written", "error")
        else:
            self._notices.over("store", "the store can be written again")

    def _check_space(self) -> None:
        path = Path(self._store.name)
        if path.is_absolute() and shutil.disk_usage(path.parent).free < LEAST_SPACE_BYTES:
            raise StoreError(f"{path.parent} is full")

    def _busy(self) -> bool:
        """Whether a campaign or a restart of ours is changing the engine now."""
        return self.campaigns.running or (self._cold is not None and self._cold.running)

    def _look_again(self) -> None:
        """A campaign ended: what it left open, if anything, is brought to an end."""
        self._watch.look_again()
        self._host_watch.look_again()
        if self._cold is not None:
            self._cold.look_again()
        if self._canary is not None:
            self._canary.look_again()

    def _more_samples(self, now: float) -> list[Sample]:
        return [*self.alerting.samples(now), *self.sending.samples(now), *self.playbooks.samples(now)]

    def _self_state(self) -> SelfState:
        return SelfState(
            version=version("trimtab"),
            mode=self._modes.mode,
            paused=self._modes.paused,
            campaign_active=self.campaigns.running,
            switches=self._control.switches,
            restart_active=self._cold is not None and self._cold.progress is not None,
            restart_time=None if self._cold is None else self._cold.restart_time,
        )


async def run_daemon(config: Config, say: Callable[[str], None]) -> None:
    """Run the daemon of a configuration until SIGTERM or SIGINT.

    Raises `UserError` when it cannot begin: an unsafe or taken address, a secret that cannot be read, another
    daemon beside the same engine.
    """
    try:
        check_bind(config.web.host, credentials.web_token(config))
    except UnsafeBind as error:
        raise ConfigError(str(error)) from error
    with contextlib.closing(listen(config.web)) as listening:
        url = local_url(listening, config.web.root_path)
        with announced(config.run_dir, config.engine.url, url):
            async with assembly.hot_engine(config) as control, canary_control(config) as canary:
                probe = EngineProbe(config, credentials.engine_api_key(config))
                daemon = Daemon(config, control, probe, cold=partial(cold_lane, config), canary=canary)
                loop = asyncio.get_running_loop()
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.add_signal_handler(number, daemon.stop.set)
                say(f"watching {config.engine.url} in mode {config.mode}; look at {url}/")
                try:
                    await daemon.run(listening)
                finally:
                    await probe.close()
