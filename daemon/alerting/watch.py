"""The loop that evaluates the rules and tells of what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog

from daemon.alerting.sinks import AlertSink, ChangeSink, RunSink
from daemon.notices import Notices
from rules.alert import Alert
from rules.evaluator import Evaluator
from rules.readings import Readings

log = structlog.get_logger("trimtab")


class AlertWatch:
    """Evaluates the rules that are due each second; sinks may be added before the first tick."""

    def __init__(
        self,
        evaluator: Evaluator,
        readings: Readings,
        notices: Notices,
        stopwatch: Callable[[], float] = time.perf_counter,
        *,
        remarks: Sequence[str] = (),
    ) -> None:
        """`remarks` are what the log is told once, with the first tick."""
        self.evaluator = evaluator
        self.alert_sinks: list[AlertSink] = []
        self.change_sinks: list[ChangeSink] = []
        self.run_sinks: list[RunSink] = []
        self._readings = readings
        self._notices = notices
        self._stopwatch = stopwatch
        self._remarks = remarks

    async def tick(self, now: float) -> None:
        """Evaluate what is due."""
        for remark in self._remarks:
            log.info(remark)
        self._remarks = ()
        came = self.evaluator.tick(self._readings, now, self._stopwatch)
        told = tuple(alert for alert in came.changes if alert.state != "pending")
        for alert in told:
            _log(alert)
        for alert_sink in self.alert_sinks if came.to_send else ():
            alert_sink.take(came.to_send, now)
        for change_sink in self.change_sinks if told else ():
            change_sink.changed(told, now)
        named = [alert for alert in (*came.restored, *told) if alert.playbook is not None]
        fired = [alert for alert in named if alert.state == "firing"]
        resolved = [alert for alert in named if alert.state == "resolved"]
        for run_sink in self.run_sinks:
            if fired:
                run_sink.fired(fired, now)
            if resolved:
                run_sink.resolved(resolved, now)
        if came.groups or came.restored:
            self._say_trouble()

    def _say_trouble(self) -> None:
        trouble = self.evaluator.trouble
        if trouble is not None:
            self._notices.say(
                "alert store", f"alerts cannot be stored, a restart would forget them: {trouble}"
            )
        else:
            self._notices.over("alert store", "alerts are stored again")
        errors = [group.last_error for group in self.evaluator.health() if group.last_error is not None]
        if errors:
            more = f" (and {len(errors) - 1} more groups)" if len(errors) > 1 else ""
            self._notices.say(
                "rules", f"a rule cannot be evaluated, its alerts stay as they are: {errors[0]}{more}"
            )
        else:
            self._notices.over("rules", "all rules can be evaluated again")


def _log(alert: Alert) -> None:
    say = log.warning if alert.state == "firing" and alert.severity != "info" else log.info
    say(f"alert {alert.rule} {alert.state}", labels=dict(alert.labels), value=alert.value)
