"""Campaigns that restart the engine: their lane, the hot campaigns inside them, and every start they saw."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table."""
    op.add_column("campaign", sa.Column("lane", sa.String(), nullable=False, server_default="hot"))
    op.add_column("campaign", sa.Column("parent", sa.Integer(), nullable=True))
    op.create_table(
        "cold_start",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("engine_version", sa.String(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=True),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("effective", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("cold_start_by_engine", "cold_start", ["engine", "engine_version"])


def downgrade() -> None:
    """Drop them again."""
    op.drop_index("cold_start_by_engine", "cold_start")
    op.drop_table("cold_start")
    with op.batch_alter_table("campaign") as table:
        table.drop_column("parent")
        table.drop_column("lane")
