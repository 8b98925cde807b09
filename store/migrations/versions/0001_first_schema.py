"""The first schema: campaigns with all they measured, the journal, launch and promoted values."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "campaign",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("decision", sa.String(), nullable=True),
        sa.Column("objective", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("incumbent", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("fingerprint", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("calibration", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "journal",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("intended", sa.Double(), nullable=False),
        sa.Column("applied", sa.Double(), nullable=True),
        sa.Column("verified", sa.Double(), nullable=True),
        sa.Column("closed", sa.Double(), nullable=True),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("change", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("undo", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("effective", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("undoes", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("campaign_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("journal_by_engine", "journal", ["engine", "state"], unique=False)
    op.create_table(
        "launch",
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("engine_version", sa.String(), nullable=False),
        sa.Column("values", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("ceilings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("engine", "boot_id"),
    )
    op.create_table(
        "promoted",
        sa.Column("engine", sa.String(), nullable=False),
        sa.Column("launch", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("ceilings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("values", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=True),
        sa.Column("time", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("engine"),
    )
    op.create_table(
        "decision",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=True),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("figures", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"],
            ["campaign.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("decision_by_campaign", "decision", ["campaign_id", "time"], unique=False)
    op.create_table(
        "pair",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("gain", sa.Double(), nullable=False),
        sa.Column("adjusted", sa.Double(), nullable=False),
        sa.Column("others", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"],
            ["campaign.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("pair_by_campaign", "pair", ["campaign_id", "trial"], unique=False)
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("values", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("effective", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("started", sa.Double(), nullable=True),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("effect", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["campaign_id"],
            ["campaign.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("campaign_id", "number"),
    )
    op.create_table(
        "window",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("applied", sa.Double(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("end", sa.Double(), nullable=False),
        sa.Column("valid", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("metrics", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("covariates", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["campaign_id"],
            ["campaign.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("window_by_campaign", "window", ["campaign_id", "block"], unique=False)


def downgrade() -> None:
    """Drop every table."""
    op.drop_index("window_by_campaign", table_name="window")
    op.drop_table("window")
    op.drop_table("trial")
    op.drop_index("pair_by_campaign", table_name="pair")
    op.drop_table("pair")
    op.drop_index("decision_by_campaign", table_name="decision")
    op.drop_table("decision")
    op.drop_table("promoted")
    op.drop_table("launch")
    op.drop_index("journal_by_engine", table_name="journal")
    op.drop_table("journal")
    op.drop_table("campaign")
