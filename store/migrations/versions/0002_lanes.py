"""The lane of a journal entry: until now every change was hot."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("journal", sa.Column("lane", sa.String(), nullable=False, server_default="hot"))


def downgrade() -> None:
    """Drop it again."""
    with op.batch_alter_table("journal") as table:
        table.drop_column("lane")
