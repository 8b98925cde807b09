"""A driver over a simulated engine with the real mind, real hands and a store, in the node's own time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from change.journal import Journal
from collectors.sample import labels
from daemon.acting.captures import Captures
from daemon.acting.deed import Deed
from daemon.acting.driver import PlaybookDriver
from daemon.acting.hands import ActingHands
from daemon.acting.notify import Notify
from daemon.acting.pledge import Pledge
from daemon.acting.preempt import Preempt
from daemon.acting.quiet import QuietTimes
from daemon.acting.quiet_walks import QuietWalks
from daemon.acting.replicas import TrafficAway
from daemon.acting.restart import RestartEngine
from daemon.acting.triggers import Silences
from daemon.alerting.addressee import Addressee
from daemon.config import Mode
from daemon.doctor.bundle import Redactor
from daemon.modes import Modes
from daemon.sections.playbooks import HooksSection
from daemon.sections.restart import RestartSection
from rules.actions import ActionKind, CaptureKind, Outcome
from rules.alert import Alert
from rules.playbook.load import read
from rules.playbook.rails import Limits
from rules.playbook.runner import Runner
from store import open_store
from store.alert_models import PlaybookRun, RunAct, RunEvent
from tests.daemon.acting.hand_stand import HandStand
from tests.rules.playbook.stand import HOT, Board
from tuner.messages import Decision

ENGINE = "north-1:8000"
URL = "http://127.0.0.1:8000"
OTHERS_NPU = "6"
"""A card of another engine."""


class NoCampaign:
    """None runs, unless a test says so."""

    def __init__(self) -> None:
        self.running = False
        self.stopped: list[tuple[str, Decision]] = []

    async def stop(
        self, reason: str, now: float, *, may_restart: bool = True, decision: Decision = "aborted"
    ) -> None:
        self.stopped.append((reason, decision))
        self.running = False

    def abandon(self, reason: str) -> None:
        self.running = False


class PaperCaptures(Captures):
    """Every capture is taken at once."""

    def __init__(self) -> None:
        self.taken: list[CaptureKind] = []

    async def take(self, kind: CaptureKind, seconds: float, now: float) -> Outcome:
        self.taken.append(kind)
        return Outcome(True, f"{kind} recorded", {"folder": "x"})


class DriverStand:
    """`begin` starts another process over the same engine and store, as after a crash."""

    def __init__(
        self,
        folder: Path,
        text: str = HOT,
        *,
        mode: Mode = "act",
        hooks: HooksSection | None = None,
        silences: Silences | None = None,
        windows: list[str] | None = None,
        stay: Callable[[float], Awaitable[None]] | None = None,
        acts_per_hour: int = 4,
        disabled: frozenset[str] = frozenset(),
        of_rule: Mapping[str, str | None] | None = None,
    ) -> None:
        self.here = HandStand(folder)
        self.node, self.clock = self.here.stand.node, self.here.stand.clock
        self.store = open_store("sqlite:///:memory:")
        self.board = Board()
        self.campaign = NoCampaign()
        self.captures = PaperCaptures()
        self._kill_switch = folder / "stop"
        self.modes = Modes(mode, folder / "paused", self._kill_switch, ())
        self.books = read(text, "test.yaml")
        self._hooks = HooksSection() if hooks is None else hooks
        self._silences = silences
        self._restart = RestartSection(window=windows or [])
        self._stay = stay
        self._limits = Limits(disabled, acts_per_hour=acts_per_hour)
        self._of_rule = {"Hot": "hot"} if of_rule is None else of_rule
        self.driver = self.begin()

    def begin(self) -> PlaybookDriver:
        here, notices = self.here, self.here.notices
        quiet = QuietTimes(self._restart, here.history)
        journal: Journal = here.stand.journal
        deeds: Mapping[ActionKind, Deed] = {
            "set_knobs": here.hot,
            "expand_batch": here.expand,
            "restart": RestartEngine(here.cold, here.condition, journal, quiet, timer=self.clock.now),
            "traffic_away": TrafficAway(self._hooks, Redactor(())),
            "notify": Notify(notices),
        }
        hands = ActingHands(deeds, self.captures, Preempt(self.campaign, self.node.control, journal))
        self.driver = PlaybookDriver(
            Runner(URL, self.books, self._limits, self.store),
            self.books,
            hands,
            self.board,
            self.modes,
            notices,
            self.clock.now,
            silences=self._silences,
            windows={"Hot": 60.0},
            of_rule=self._of_rule,
            pledge=None if self._stay is None else Pledge(self._stay, notices),
            addressee=Addressee(ENGINE, frozenset({"north-1"})),
            condition=here.condition,
            quiet=QuietWalks(quiet, self.books),
            own_card=lambda npu: None if npu == "?" else npu != OTHERS_NPU,
        )
        return self.driver

    # ------------------------------------------------------------------ the world

    @property
    def now(self) -> float:
        return self.clock.now()

    def halt(self, how: str) -> None:
        """A person says "paused", or makes the file of the "kill switch"."""
        if how == "paused":
            self.modes.pause()
        else:
            self._kill_switch.touch()

    def heat(self, celsius: float, npu: str = "3") -> None:
        self.board.readings["npu_temperature_celsius", labels(npu=npu)] = (self.now, celsius)

    def fires(self, npu: str = "3", playbook: str = "hot") -> Alert:
        own = labels(alertname="Hot", severity="warning", npu=npu)
        alert = Alert("Hot", own, {}, "firing", 90.0, self.now - 60, self.now, playbook=playbook)
        self.driver.fired([alert], self.now)
        return alert

    def live(self, seconds: int = 1, celsius: float | None = None) -> None:
        """Let the driver tick each second; with a fresh reading each time where one is given."""
        self.here.stand.live(self.ticks(seconds, celsius))

    async def ticks(self, seconds: int = 1, celsius: float | None = None) -> None:
        for _ in range(seconds):
            if celsius is not None:
                self.heat(celsius)
            await self.driver.tick(self.now)
            await asyncio.sleep(1.0)

    def rows(self, table: type[Any]) -> list[Any]:
        with self.store.reading() as session:
            return list(session.query(table).order_by(table.id))

    @property
    def runs(self) -> list[PlaybookRun]:
        return self.rows(PlaybookRun)

    @property
    def acts(self) -> list[RunAct]:
        return self.rows(RunAct)

    def lines(self) -> list[str]:
        return [f"{row.kind}: {row.text}" for row in self.rows(RunEvent)]
