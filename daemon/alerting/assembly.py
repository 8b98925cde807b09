"""Build the alerting part of the daemon that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collectors.history import History
from collectors.sample import Sample
from daemon.alerting import view
from daemon.alerting.campaign_alert import CampaignAlert
from daemon.alerting.samples import samples
from daemon.alerting.watch import AlertWatch
from daemon.config import Config
from daemon.errors import ConfigError
from daemon.notices import Notices
from rules.evaluator import Evaluator
from rules.history_readings import HistoryReadings, without_a_past
from rules.rule import RuleError, RuleGroup
from rules.rule_file import load, shipped_files
from rules.slo_rules import LeftOut
from store import Store


class Alerting:
    """The rules of a configuration with what watches them; `watch` is None where no rule is evaluated."""

    def __init__(
        self,
        config: Config,
        history: History,
        store: Store,
        notices: Notices,
        now: float,
        own: Callable[[float], Iterable[Sample]] | None = None,
    ) -> None:
        """`now` is when the history begins; `own` gives what the exporter says beside it, which rules may ask for too.

        Raises `ConfigError` for rules that cannot be used.
        """
        self._own_card = config.own_card
        self.left_out: list[LeftOut] = []
        self.groups = configured_rules(config, self.left_out.append, notices)
        self._evaluated: tuple[RuleGroup, ...] = ()
        self.watch: AlertWatch | None = None
        if config.rules.enabled:
            self._evaluated = _with_a_past(self.groups, self.left_out.append)
            evaluator = Evaluator(self._evaluated, store, config.engine.url, readings_since=now)
            readings = HistoryReadings(history, None if own is None else _Once(own))
            remarks = [str(one) for one in self.left_out]
            self.watch = AlertWatch(evaluator, readings, notices, remarks=remarks)

    @property
    def windows(self) -> dict[str, float]:
        """The `for` of each rule in seconds, by its name."""
        return {rule.name: rule.for_seconds for group in self.groups for rule in group.rules}

    @property
    def playbooks(self) -> dict[str, str | None]:
        """The playbook of each rule, by its name."""
        return {rule.name: rule.playbook for group in self.groups for rule in group.rules}

    def campaign_alert(self) -> Callable[[float], str | None]:
        """What tells a campaign of the alerts that end a trial."""
        if self.watch is None:
            return lambda now: None
        return CampaignAlert(self.watch.evaluator, self._evaluated, self._own_card)

    def view(self) -> dict[str, Any]:
        """What the page and the API show."""
        return view.disabled() if self.watch is None else view.alerts(self.watch.evaluator, self._evaluated)

    @property
    def firing(self) -> int | None:
        """How many alerts fire that are more than an information; None where no rules are evaluated."""
        if self.watch is None:
            return None
        alerts = self.watch.evaluator.alerts()
        return sum(one.state == "firing" and one.severity != "info" for one in alerts)

    def samples(self, now: float) -> Iterable[Sample]:
        """What the exporter says of them."""
        return () if self.watch is None else samples(self.watch.evaluator, now)


class _Once:
    """Makes samples once for each time: every rule of a tick asks for them."""

    def __init__(self, make: Callable[[float], Iterable[Sample]]) -> None:
        self._make = make
        self._made: tuple[float, list[Sample]] | None = None

    def __call__(self, now: float) -> list[Sample]:
        if self._made is None or self._made[0] != now:
            self._made = (now, list(self._make(now)))
        return self._made[1]


def _with_a_past(groups: Sequence[RuleGroup], left_out: Callable[[LeftOut], None]) -> tuple[RuleGroup, ...]:
    """The groups less the rules that ask for a past that is kept by a Prometheus alone, of which `left_out` hears."""
    found = []
    for group in groups:
        never = {
            rule.name: why for rule in group.rules if (why := without_a_past(rule.expression)) is not None
        }
        for name, why in never.items():
            left_out(LeftOut(name, (), why))
        rules = tuple(rule for rule in group.rules if rule.name not in never)
        if rules:
            found.append(replace(group, rules=rules))
    return tuple(found)


def rule_files(config: Config) -> list[Path]:
    """The rule files of a configuration: those that come with Trimtab, then its own."""
    return [*(shipped_files() if config.rules.shipped else ()), *config.rules.files]


def configured_rules(
    config: Config, left_out: Callable[[LeftOut], None] = lambda _: None, notices: Notices | None = None
) -> tuple[RuleGroup, ...]:
    """The rules of a configuration; `left_out` hears of those without their limit.

    Where they are switched off they are read all the same: a Prometheus may evaluate them, and they say which playbook
    an alert of it is for. Then a mistake in them is a notice, and there are none. Raises `ConfigError`.
    """
    try:
        return read_rules(config, left_out=left_out)
    except RuleError as error:
        if not config.rules.enabled:
            if notices is not None:
                text = f"alerts of Alertmanager's find no playbook by their name: {error}"
                notices.say("rules unread", text)
            return ()
        raise ConfigError(str(error)) from error


def read_rules(
    config: Config, files: Sequence[Path] = (), left_out: Callable[[LeftOut], None] = lambda _: None
) -> tuple[RuleGroup, ...]:
    """The rules of these files, or of the configuration where none are named, with its SLO. Raises `RuleError`."""
    return load(
        files or rule_files(config),
        config.rules.interval_seconds,
        frozenset() if files else frozenset(config.rules.disabled),
        config.slo.model_dump(),
        left_out,
    )
