"""Alerts over restarts, what Alertmanager's webhook brought, and the runs of playbooks with their audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _json(name: str, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=nullable)


def _time(name: str, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=nullable)


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "alert",
        _text("engine"),
        _text("rule"),
        _text("fingerprint"),
        _text("grouped"),
        _json("labels"),
        _json("annotations"),
        _text("state"),
        sa.Column("value", sa.Double(), nullable=True),
        _time("active_at"),
        _time("fired_at", True),
        _time("resolved_at", True),
        _time("keep_firing_since", True),
        _text("playbook", True),
        _time("time"),
        sa.PrimaryKeyConstraint("engine", "rule", "fingerprint"),
    )
    op.create_table(
        "received_alert",
        _text("engine"),
        _text("fingerprint"),
        _time("starts_at"),
        _text("status"),
        _json("labels"),
        _json("body"),
        _time("received"),
        sa.PrimaryKeyConstraint("engine", "fingerprint", "starts_at"),
    )
    op.create_index("received_alert_by_time", "received_alert", ["engine", "received"])
    op.create_table(
        "playbook_run",
        sa.Column("id", sa.Integer(), nullable=False),
        _text("engine"),
        _text("playbook"),
        _text("source"),
        _text("fingerprint"),
        _time("alert_started"),
        _json("labels"),
        _text("target"),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        _text("state"),
        _text("step", True),
        _text("reason", True),
        _text("cause", True),
        _time("queued"),
        _time("started", True),
        _time("ended", True),
        _json("memory"),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("playbook_run_by_time", "playbook_run", ["engine", "queued"])
    op.create_index(
        "playbook_run_by_alert", "playbook_run", ["engine", "playbook", "fingerprint", "alert_started"]
    )
    op.create_table(
        "run_event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        _time("time"),
        _text("step", True),
        _text("kind"),
        _text("text"),
        _json("figures"),
        sa.ForeignKeyConstraint(["run_id"], ["playbook_run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("run_event_by_run", "run_event", ["run_id", "id"])
    op.create_table(
        "run_act",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        _text("step"),
        _json("action"),
        _json("plan"),
        _text("state"),
        _time("intended"),
        _time("ended", True),
        _json("outcome", True),
        sa.ForeignKeyConstraint(["run_id"], ["playbook_run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("run_act_by_run", "run_act", ["run_id", "id"])


def downgrade() -> None:
    """Drop them again."""
    for table in ("run_act", "run_event", "playbook_run", "received_alert", "alert"):
        op.drop_table(table)
