"""Build the playbooks part of the daemon that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import rules
from change.engine import EngineControl
from change.journal import Journal
from collectors.history import History
from collectors.sample import Sample, labels
from daemon.acting.assembly import acting_hands
from daemon.acting.condition import EngineCondition
from daemon.acting.counts import Counts
from daemon.acting.driver import PlaybookDriver
from daemon.acting.notify import NoticeSink
from daemon.acting.pledge import Pledge
from daemon.acting.preempt import Campaigning, GiveWay
from daemon.acting.quiet import QuietTimes
from daemon.acting.quiet_walks import QuietWalks
from daemon.acting.triggers import Silences
from daemon.alerting.addressee import addressee
from daemon.cold import Cold
from daemon.config import Config
from daemon.engine.process import ProcessServer
from daemon.errors import ConfigError
from daemon.host_lane import HostLane
from daemon.modes import Modes
from daemon.notices import Notices
from rules.history_readings import HistoryReadings
from rules.playbook.load import PlaybookError, load
from rules.playbook.rails import Limits
from rules.playbook.runner import Runner
from rules.playbook.schema import Playbook
from rules.rule import RuleGroup
from store import Store
from web.body import Refused

SHIPPED = Path(rules.__file__).with_name("playbooks")
"""Where the playbooks that come with Trimtab are."""


class Playbooks:
    """The playbooks of a configuration with what walks them; `driver` is None where none may walk.

    `walker` is there all the same: what a crash cut off is put back even where playbooks are switched off since.
    """

    def __init__(
        self,
        config: Config,
        groups: Sequence[RuleGroup],
        *,
        control: EngineControl,
        store: Store,
        journal: Journal,
        history: History,
        modes: Modes,
        notices: Notices,
        campaigns: Campaigning,
        host: HostLane,
        cold: Cold | None,
        clock: Callable[[], float],
        silences: Silences | None = None,
        sink: NoticeSink | None = None,
        give_way: GiveWay | None = None,
        present: Callable[[float], Iterable[Sample]] | None = None,
    ) -> None:
        """`groups` are the rules that name playbooks, `present` what `HistoryReadings` takes besides the history.

        Raises `ConfigError` for playbooks that cannot be used.
        """
        self.playbooks = configured_playbooks(config, groups)
        enabled = config.playbooks.enabled
        walked = self.playbooks if enabled else {}
        quiet = QuietTimes(config.engine.restart, history)
        condition = _condition(config, control, history, cold)
        hands = acting_hands(
            config,
            control,
            journal,
            history,
            notices,
            campaigns=campaigns,
            host=host,
            cold=cold,
            quiet=quiet,
            condition=condition,
            sink=sink,
            give_way=give_way,
        )
        self.walker = PlaybookDriver(
            Runner(
                config.engine.url,
                walked,
                limits(config),
                store,
                finish_profile_seconds=config.capture.finish_seconds,
            ),
            walked,
            hands,
            HistoryReadings(history, present),
            modes,
            notices,
            clock,
            silences=silences,
            windows={rule.name: rule.for_seconds for group in groups for rule in group.rules},
            of_rule={rule.name: rule.playbook for group in groups for rule in group.rules},
            addressee=addressee(config),
            condition=condition,
            pledge=_pledge(config, cold, notices) if enabled else None,
            quiet=QuietWalks(quiet, walked),
            own_card=config.own_card,
            finish_profile_seconds=config.capture.finish_seconds,
        )
        self.driver = self.walker if enabled else None

    def alone(self) -> PlaybookDriver:
        """The driver of a process that only takes a look: what another one left unfinished is not its to end."""
        if self.driver is None:
            raise Refused("playbooks are switched off: playbooks.enabled is false")
        self.driver.leave_the_past()
        return self.driver

    @property
    def acting(self) -> bool:
        """Whether one has changed something and has not ended."""
        return self.walker.acting

    def samples(self, now: float) -> Iterable[Sample]:
        """What the exporter says of them."""
        return samples(self.walker.counts, now)

    def listed(self) -> list[dict[str, Any]]:
        """Every playbook, as `web.run_shapes.Playbook`."""
        return [described(one) for one in self.playbooks.values()]


def samples(counts: Counts, now: float) -> Iterable[Sample]:
    """Ends of runs and what came of acts, since the daemon started."""
    for (playbook, state), count in sorted(counts.runs.items()):
        yield Sample("trimtab_playbook_runs_total", float(count), now, labels(playbook=playbook, state=state))
    for (kind, outcome), count in sorted(counts.acts.items()):
        yield Sample("trimtab_playbook_acts_total", float(count), now, labels(kind=kind, outcome=outcome))


def playbook_files(config: Config) -> list[Path]:
    """The playbook files of a configuration: those that come with Trimtab, then its own."""
    shipped = sorted(SHIPPED.glob("*.yaml")) if config.playbooks.shipped else []
    return [*shipped, *config.playbooks.files]


def configured_playbooks(config: Config, groups: Sequence[RuleGroup]) -> dict[str, Playbook]:
    """The playbooks of a configuration, by name. Raises `ConfigError`."""
    windows: dict[str, float] = {}
    for group in groups:
        for rule in group.rules:
            if rule.playbook is not None:
                windows[rule.playbook] = max(windows.get(rule.playbook, 0.0), rule.for_seconds)
    try:
        return load(playbook_files(config), windows)
    except PlaybookError as error:
        raise ConfigError(str(error)) from error


def limits(config: Config) -> Limits:
    """The operator's limits."""
    section = config.playbooks
    return Limits(
        disabled=frozenset(section.disabled),
        allow=None if section.allow is None else frozenset(section.allow),
        acts_per_hour=section.acts_per_hour,
        approval_seconds=section.approval_minutes * 60.0,
    )


def described(playbook: Playbook) -> dict[str, Any]:
    """A playbook in plain values."""
    steps: list[Mapping[str, Any]] = [
        step.model_dump(mode="json", by_alias=True, exclude_defaults=True) for step in playbook.steps
    ]
    return {
        "name": playbook.name,
        "title": playbook.title,
        "description": playbook.description,
        "guide": playbook.guide,
        "target": playbook.target,
        "cooldown_seconds": playbook.cooldown,
        "variables": dict(playbook.variables),
        "changes": playbook.changes,
        "steps": steps,
    }


def _pledge(config: Config, cold: Cold | None, notices: Notices) -> Pledge | None:
    """Only where this daemon could start the engine again, and is allowed to."""
    allow = config.playbooks.allow
    if (
        config.engine.server.hand != "process"
        or cold is None
        or (allow is not None and "restart" not in allow)
    ):
        return None
    return Pledge(ProcessServer(config.run_dir).stay, notices)


def _condition(
    config: Config, control: EngineControl, history: History, cold: Cold | None
) -> EngineCondition | None:
    if cold is None:
        return None
    load = sum(config.engine.restart.load.model_dump().values())
    return EngineCondition(cold, control, history, load_seconds=load)
