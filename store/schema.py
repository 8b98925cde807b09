"""Bringing a database to the newest schema with the migrations shipped in this package."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from store.errors import StoreError

MIGRATIONS = Path(__file__).parent / "migrations"


def head() -> str:
    """Return the revision this version of Trimtab writes."""
    revision = _scripts(Config()).get_current_head()
    assert revision is not None
    return revision


def upgrade_to_head(connection: Connection, name: str) -> None:
    """Run the missing migrations inside the connection's transaction.

    Raises `StoreError` when `name` was written by a newer Trimtab or belongs to another program.
    """
    config = Config()
    scripts = _scripts(config)
    current = MigrationContext.configure(connection).get_current_revision()
    if current is None and (foreign := inspect(connection).get_table_names()):
        raise StoreError(
            f"{name} holds tables of another program ({foreign[0]}): give Trimtab a file of its own"
        )
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(
            f"{name} has schema {current!r}, which this version does not know (its newest is {head()!r}): "
            "it was written by a newer Trimtab, so upgrade, or use another file"
        )
    if current != scripts.get_current_head():
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _scripts(config: Config) -> ScriptDirectory:
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)
