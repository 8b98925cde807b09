"""Rows about Trimtab itself, and the names that operators of this field already use."""

from __future__ import annotations

from collectors.metrics.row import DEVICE, ENGINE, Metric

OWN_ROWS = (
    Metric("trimtab_build_info", "Version of Trimtab; always 1.", "1", labels=("version",), combine="max"),
    Metric(
        "trimtab_mode",
        "1 for the mode Trimtab is in, 0 for the others.",
        "1",
        labels=("mode",),
        combine="max",
    ),
    Metric("trimtab_paused", "1 while Trimtab is paused.", "1", combine="max"),
    Metric("trimtab_campaign_active", "1 while a campaign runs.", "1", combine="max"),
    Metric("trimtab_restart_active", "1 while Trimtab restarts the engine.", "1", combine="max"),
    Metric(
        "trimtab_restart_time_seconds",
        "Unix time when a restart by Trimtab was last under way; absent before the first.",
        "seconds",
        combine="max",
    ),
    Metric(
        "trimtab_switches_total",
        "Hot changes made to the engine since Trimtab started.",
        "changes",
        "counter",
    ),
    Metric(
        "trimtab_playbook_runs_total",
        "Walks of playbooks that ended since Trimtab started, by how they ended.",
        "runs",
        "counter",
        labels=("playbook", "state"),
    ),
    Metric(
        "trimtab_playbook_acts_total",
        "Actions of playbooks since Trimtab started: done, failed, refused, undone, not_undone.",
        "acts",
        "counter",
        labels=("kind", "outcome"),
    ),
    Metric(
        "trimtab_collector_success",
        "1 if the source's last reading was good, 0 if it failed.",
        "1",
        labels=("collector",),
        combine="min",
    ),
    Metric(
        "trimtab_collector_duration_seconds",
        "How long the source's last reading took.",
        "seconds",
        labels=("collector",),
        combine="max",
    ),
    Metric(
        "trimtab_collector_notes",
        "Rows or cells of the source's last reading that could not be read.",
        "notes",
        labels=("collector",),
    ),
    Metric(
        "trimtab_sample_age_seconds",
        "Age of the source's newest sample.",
        "seconds",
        labels=("collector",),
        combine="max",
    ),
    Metric("trimtab_history_series", "Series held in memory.", "series"),
    Metric(
        "trimtab_history_refused_samples_total",
        "Samples not kept because the limit of series was reached.",
        "samples",
        "counter",
    ),
    Metric(
        "trimtab_alerts",
        "Alerts that are pending or firing.",
        "alerts",
        labels=("alertname", "severity", "state"),
    ),
    Metric(
        "trimtab_rule_evaluation_failures_total",
        "Evaluations of the rule that failed; its alerts then stay as they are.",
        "evaluations",
        "counter",
        labels=("rule", "rule_group"),
    ),
    Metric(
        "trimtab_rule_group_interval_seconds",
        "Time between two evaluations of the rule group.",
        "seconds",
        labels=("rule_group",),
        combine="max",
    ),
    Metric(
        "trimtab_rule_group_iterations_missed_total",
        "Evaluations of the rule group that were due and left out, because the daemon was late.",
        "evaluations",
        "counter",
        labels=("rule_group",),
    ),
    Metric(
        "trimtab_rule_group_last_evaluation_timestamp_seconds",
        "Unix time of the rule group's last evaluation.",
        "seconds",
        labels=("rule_group",),
        combine="max",
    ),
    Metric(
        "trimtab_rule_group_last_duration_seconds",
        "How long the rule group's last evaluation took.",
        "seconds",
        labels=("rule_group",),
        combine="max",
    ),
    Metric(
        "trimtab_notifications_sent_total",
        "Alerts that the Alertmanager or webhook took.",
        "alerts",
        "counter",
        labels=("target",),
    ),
    Metric(
        "trimtab_notifications_dropped_total",
        "Alerts that were not sent: the queue was full, they came too late, or the target refused them.",
        "alerts",
        "counter",
        labels=("target",),
    ),
    Metric(
        "trimtab_notifications_failed_total",
        "Requests to the Alertmanager or webhook that failed; what they brought is sent again.",
        "requests",
        "counter",
        labels=("target",),
    ),
    Metric(
        "trimtab_notification_queue_length",
        "Alerts that wait to be sent.",
        "alerts",
        labels=("target",),
    ),
)

PRESENT_NAMES = frozenset(row.name for row in OWN_ROWS) - {
    "trimtab_collector_success",
    "trimtab_collector_duration_seconds",
    "trimtab_collector_notes",
}
"""Those that are made when somebody asks and stand in no history: they have no past."""

FAMILIAR_ROWS = (
    Metric(
        "npu_mem_bandwidth",
        "HBM bandwidth in use, in percent (npu_hbm_bandwidth_usage_ratio times 100).",
        "percent",
        labels=DEVICE,
        combine="mean",
    ),
    Metric(
        "npu_sm_activity",
        "AI core utilisation, in percent (npu_aicore_usage_ratio times 100); an NPU has no SMs.",
        "percent",
        labels=DEVICE,
        combine="mean",
    ),
    Metric(
        "vllm_pending_queries",
        "Requests waiting to be scheduled (trimtab_engine_requests_waiting).",
        "requests",
        labels=ENGINE,
    ),
)
