"""Alembic's entry: migrate over the connection and in the transaction that `store.schema` hands over."""

from __future__ import annotations

from alembic import context

import store.alert_models  # noqa: F401  (its tables belong to the metadata too)
from store.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    transactional_ddl=True,  # SQLite can, once the driver is kept from committing by itself
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
