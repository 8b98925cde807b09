"""Build the alerting part of the daemon that a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from rules.history_readings import HistoryReadings
from rules.rule import RuleError, RuleGroup
from rules.rule_file import load, shipped_files
from store import Store


class Alerting:
    """The rules of a configuration with what watches them; `watch` is None where no rule is evaluated."""

    def __init__(self, config: Config, history: History, store: Store, notices: Notices, now: float) -> None:
        """`now` is when the history begins. Raises `ConfigError` for rules that cannot be used."""
        self.groups = configured_rules(config)
        self.watch: AlertWatch | None = None
        if config.rules.enabled:
            evaluator = Evaluator(self.groups, store, config.engine.url, readings_since=now)
            self.watch = AlertWatch(evaluator, HistoryReadings(history), notices)

    def campaign_alert(self) -> Callable[[float], str | None]:
        """What tells a campaign of the alerts that end a trial."""
        return (lambda now: None) if self.watch is None else CampaignAlert(self.watch.evaluator, self.groups)

    def view(self) -> dict[str, Any]:
        """What the page and the API show."""
        return view.disabled() if self.watch is None else view.alerts(self.watch.evaluator, self.groups)

    def samples(self, now: float) -> Iterable[Sample]:
        """What the exporter says of them."""
        return () if self.watch is None else samples(self.watch.evaluator, now)


def rule_files(config: Config) -> list[Path]:
    """The rule files of a configuration: those that come with Trimtab, then its own."""
    return [*(shipped_files() if config.rules.shipped else ()), *config.rules.files]


def configured_rules(config: Config) -> tuple[RuleGroup, ...]:
    """The rules of a configuration, none where they are switched off. Raises `ConfigError`."""
    if not config.rules.enabled:
        return ()
    try:
        return load(rule_files(config), config.rules.interval_seconds, frozenset(config.rules.disabled))
    except RuleError as error:
        raise ConfigError(str(error)) from error
