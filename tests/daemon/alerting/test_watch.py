"""The daemon's loop over the rules: who is told what, what is said of trouble, and what a campaign hears."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from collectors.history import History
from collectors.sample import Sample, labels
from daemon.alerting.assembly import Alerting
from daemon.alerting.campaign_alert import NEW_SECONDS, CampaignAlert
from daemon.alerting.samples import samples
from daemon.alerting.watch import AlertWatch
from daemon.config import Config
from daemon.errors import ConfigError
from daemon.gauges import history_gauges
from daemon.notices import Notices
from rules.alert import Alert
from rules.evaluator import Evaluator
from rules.expression import EvaluationError
from rules.rule import RuleGroup
from store import Store, open_store
from tests.rules.script import START, STEP, Script, rules
from web import alert_shapes


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in memory."""
    opened = open_store("sqlite:///:memory:")
    yield opened
    opened.close()


class Listener:
    """Every kind of sink."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, float | None]] = []
        self.changes: list[str] = []
        self.runs: list[str] = []

    def take(self, alerts: Sequence[Alert], now: float) -> None:
        self.sent += [(alert.state, alert.valid_until) for alert in alerts]

    def changed(self, alerts: Sequence[Alert], now: float) -> None:
        self.changes += [alert.state for alert in alerts]

    def fired(self, alerts: Sequence[Alert], now: float) -> None:
        assert {alert.state for alert in alerts} == {"firing"}
        self.runs += [f"{alert.playbook} firing" for alert in alerts]

    def resolved(self, alerts: Sequence[Alert], now: float) -> None:
        assert {alert.state for alert in alerts} == {"resolved"}
        self.runs += [f"{alert.playbook} resolved" for alert in alerts]


class Stand:
    """A watch over a script, with one listener."""

    def __init__(self, groups: tuple[RuleGroup, ...], store: Store | None = None) -> None:
        self.script = Script()
        self.now = START - STEP
        self.notices = Notices(lambda: self.now)
        self.watch = AlertWatch(Evaluator(groups, store, "e"), self.script, self.notices, lambda: 0.0)
        self.heard = Listener()
        self.watch.alert_sinks.append(self.heard)
        self.watch.change_sinks.append(self.heard)
        self.watch.run_sinks.append(self.heard)
        self.campaign = CampaignAlert(self.watch.evaluator, groups)

    def step(self, **values: float | None) -> None:
        self.now += STEP
        self.script.set(**values)
        asyncio.run(self.watch.tick(self.now))


def test_each_sink_hears_what_is_its_own() -> None:
    stand = Stand(rules("for: 15s, playbook: p"))
    stand.step(a=1)
    assert (stand.heard.sent, stand.heard.changes, stand.heard.runs) == ([], [], [])
    stand.step()
    stand.step(a=None)
    assert [state for state, _ in stand.heard.sent] == ["firing", "resolved"]
    assert stand.heard.sent[0][1] == START + STEP + 240.0
    assert stand.heard.changes == ["firing", "resolved"]
    assert stand.heard.runs == ["p firing", "p resolved"]
    for _ in range(4):
        stand.step()
    assert stand.heard.changes == ["firing", "resolved"]


def test_an_alert_without_a_playbook_starts_nothing() -> None:
    stand = Stand(rules())
    stand.step(a=1)
    assert (stand.heard.changes, stand.heard.runs) == (["firing"], [])


def test_after_a_restart_runs_hear_again_of_what_fires_and_others_do_not(store: Store) -> None:
    before = Stand(rules("playbook: p"), store)
    before.step(a=1)
    after = Stand(rules("playbook: p"), store)
    after.step(a=1)
    assert (after.heard.changes, after.heard.runs) == ([], ["p firing"])
    after.step()
    assert after.heard.runs == ["p firing"]


def test_a_rule_that_fails_is_a_notice_until_it_works_again() -> None:
    stand = Stand(rules())
    stand.script.broken = EvaluationError("too much work")
    stand.step()
    (notice,) = stand.notices.standing()
    assert notice.text == "a rule cannot be evaluated, its alerts stay as they are: R: too much work"
    stand.script.broken = None
    stand.step()
    assert stand.notices.standing() == []


def test_the_exporter_counts_alerts_and_failures() -> None:
    stand = Stand(rules("for: 15s"))
    assert {one.name for one in samples(stand.watch.evaluator, START)} == {
        "trimtab_rule_evaluation_failures_total",
        "trimtab_rule_group_interval_seconds",
        "trimtab_rule_group_iterations_missed_total",
    }
    stand.step(a=1)
    stand.step(a=1, b=1)
    told = {(one.name, one.labels): one.value for one in samples(stand.watch.evaluator, stand.now)}
    for state in ("pending", "firing"):
        own = labels(alertname="R", severity="warning", state=state)
        assert told["trimtab_alerts", own] == 1.0
    group = labels(rule_group="g")
    assert told["trimtab_rule_group_last_evaluation_timestamp_seconds", group] == START + STEP
    assert told["trimtab_rule_evaluation_failures_total", labels(rule="R", rule_group="g")] == 0.0
    stand.step(a=None, b=None)
    names = {one.name for one in samples(stand.watch.evaluator, stand.now)}
    assert "trimtab_alerts" not in names


@pytest.mark.parametrize(
    ("text", "expr", "heard"),
    [
        ("labels: {severity: critical}", "x > 0", (True, True)),
        ("labels: {severity: warning}", "x > 0", (True, False)),
        ("labels: {severity: info}", "x > 0", (False, False)),
        # Over an hour other candidates served too.
        ("labels: {severity: warning}", "avg_over_time(x[1h]) > 0", (False, False)),
        # A violated SLO is no reason: the incumbent violates it too.
        ("labels: {severity: critical}, playbook: slo_burn", "avg_over_time(x[1h]) > 0", (False, False)),
        ("labels: {severity: critical}, playbook: slo_burn", "x > 0", (True, False)),
        (
            "labels: {severity: critical}",
            "x > 0 unless on () trimtab_engine_ttft_seconds_count",
            (True, False),
        ),
        (
            "labels: {severity: critical}",
            "avg_over_time(x[1h]) > 0 unless on () trimtab_engine_http_errors_total",
            (False, False),
        ),
        ("labels: {severity: critical}", "x > 0 and on () trimtab_collector_success == 0", (False, False)),
    ],
)
def test_a_campaign_hears_of_what_is_critical_or_new(text: str, expr: str, heard: tuple[bool, bool]) -> None:
    stand = Stand(rules(text, expr=f'"{expr}"'))
    stand.step()
    assert stand.campaign(stand.now) is None
    stand.step(a=1)
    assert (stand.campaign(stand.now) is not None) == heard[0]
    assert (stand.campaign(stand.now + NEW_SECONDS) is not None) == heard[1]


def test_an_alert_about_trimtab_itself_is_no_reason_to_end_a_trial() -> None:
    groups = rules("labels: {severity: critical}", expr='"trimtab_collector_success == 0"')
    history = History()
    history.add([Sample("trimtab_collector_success", 0.0, START, labels(collector="host"))])
    from rules.history_readings import HistoryReadings

    evaluator = Evaluator(groups)
    evaluator.tick(HistoryReadings(history), START)
    assert [alert.state for alert in evaluator.alerts()] == ["firing"]
    assert CampaignAlert(evaluator, groups)(START) is None


@pytest.mark.parametrize(
    ("own", "heard"),
    [
        ({"npu": "1"}, True),
        ({"npu": "6"}, False),
        ({"server": ""}, True),
        ({"server": "decode-0"}, False),
        ({"collector": "vllm"}, True),
        ({"collector": "engine:decode-0"}, False),
        # The canary tries candidates.
        ({"server": "canary"}, True),
        ({"collector": "engine:canary"}, True),
    ],
)
def test_an_alert_about_another_engine_is_no_reason_to_end_a_trial(own: dict[str, str], heard: bool) -> None:
    groups = rules("labels: {severity: critical}")
    script = Script()
    script.values[labels(**own)] = 1.0
    evaluator = Evaluator(groups)
    evaluator.tick(script, START)
    config = Config.model_validate({"collect": {"derived": {"cards": [[0, 1, 2, 3], [4, 5, 6, 7]]}}})
    assert (CampaignAlert(evaluator, groups, config.own_card)(START) is not None) == heard


def test_what_a_campaign_sees_of_the_engine_names_the_alert() -> None:
    read = history_gauges(History(), alert=lambda now: "EngineStalled" if now > 5 else None)
    assert (read(1.0).alert, read(9.0).alert) == (None, "EngineStalled")


Configured = Callable[..., Alerting]


@pytest.fixture
def configured(tmp_path: Path, store: Store) -> Configured:
    """Alerting as a configuration has it."""

    def build(text: str, **more: object) -> Alerting:
        path = tmp_path / "rules.yaml"
        path.write_text(text)
        values = {"rules": {"shipped": False, "files": [str(path)], **more}}
        config = Config.model_validate(values)
        return Alerting(config, History(), store, Notices(lambda: START), START)

    return build


RULE = "groups: [{name: g, rules: [{alert: R, expr: npu_power_watts > 1, for: 30s, playbook: p}]}]"


def test_the_rules_of_a_configuration_are_shown_with_their_health(configured: Configured) -> None:
    alerting = configured(RULE)
    assert (alerting.windows, alerting.playbooks) == ({"R": 30.0}, {"R": "p"})
    assert alerting.watch is not None
    shown = alert_shapes.Alerts.model_validate(alerting.view())
    assert (shown.enabled, shown.groups[0].rules[0].health) == (True, "unknown")
    asyncio.run(alerting.watch.tick(START))
    shown = alert_shapes.Alerts.model_validate(alerting.view())
    assert (shown.groups[0].rules[0].health, shown.groups[0].rules[0].state) == ("ok", "inactive")


def test_a_rule_about_a_past_that_is_not_kept_is_left_out_and_told(configured: Configured) -> None:
    asking = "{alert: Past, expr: 'increase(trimtab_switches_total[1h]) > 9', playbook: q}"
    alerting = configured(RULE.replace("rules: [", f"rules: [{asking}, "))
    assert [str(one) for one in alerting.left_out] == [
        "Past is left out: no past is kept of trimtab_switches_total: ask for it without a range and without offset"
    ]
    shown = alert_shapes.Alerts.model_validate(alerting.view())
    assert [rule.name for group in shown.groups for rule in group.rules] == ["R"]
    assert alerting.playbooks["Past"] == "q", "a Prometheus may evaluate it"


def test_alerts_are_shown_the_worst_first() -> None:
    from daemon.alerting import view

    groups = (
        *rules("for: 1h"),
        *rules(name="Bad", text="labels: {severity: critical}"),
        *rules(name="Warned"),
    )
    evaluator = Evaluator(groups)
    evaluator.tick(Script(a=1), START)
    shown = alert_shapes.Alerts.model_validate(view.alerts(evaluator, groups))
    assert [one.name for one in shown.alerts] == ["Bad", "Warned", "R"]
    assert [one.rules[0].state for one in shown.groups] == ["pending", "firing", "firing"]


def test_rules_that_are_switched_off_still_name_the_playbooks_of_alerts_that_others_send(
    configured: Configured,
) -> None:
    alerting = configured(RULE, enabled=False)
    assert (alerting.windows, alerting.playbooks) == ({"R": 30.0}, {"R": "p"})
    assert alerting.watch is None
    assert alerting.view()["enabled"] is False


def test_rules_that_are_switched_off_may_hold_mistakes(configured: Configured) -> None:
    alerting = configured("not: rules", enabled=False)
    assert alerting.watch is None
    assert alerting.view()["enabled"] is False
    assert list(alerting.samples(START)) == []
    assert alerting.campaign_alert()(START) is None


def test_rules_that_cannot_be_used_are_a_mistake_of_the_configuration(configured: Configured) -> None:
    with pytest.raises(ConfigError, match=r"rules\.yaml:1: rule file: unknown key 'not'"):
        configured("not: rules")


def test_a_campaign_is_told_whose_cards_are_whose(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        "groups: [{name: g, rules: [{alert: R, expr: npu_power_watts > 1, labels: {severity: critical}}]}]"
    )
    values = {
        "rules": {"shipped": False, "files": [str(path)]},
        "collect": {"derived": {"cards": [[0, 1], [2, 3]]}},
    }
    history = History()
    alerting = Alerting(Config.model_validate(values), history, store, Notices(lambda: START), START)
    assert alerting.watch is not None
    heard = []
    for npu, now in (("2", START), ("1", START + STEP)):
        history.add([Sample("npu_power_watts", 300.0, now, labels(npu=npu))])
        asyncio.run(alerting.watch.tick(now))
        heard.append(alerting.campaign_alert()(now))
    assert heard == [None, "R"]
