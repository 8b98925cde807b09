"""The migrations: they make what the models say, run once, and know when they do not know."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from store import StoreError, open_store
from store.models import Base
from store.schema import MIGRATIONS, head, upgrade_to_head

ROOT = Path(__file__).parents[2]


def test_models_and_migrations_agree(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/x.db").close()
    engine = create_engine(f"sqlite:///{tmp_path}/x.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_a_forgotten_id_is_never_used_again_by_campaigns_and_journal(tmp_path: Path) -> None:
    """The comparison does not see AUTOINCREMENT."""
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    with store.reading() as session:
        for table in ("campaign", "journal"):
            made = session.execute(text(f"SELECT sql FROM sqlite_master WHERE name = '{table}'")).scalar_one()
            assert "AUTOINCREMENT" in made
    store.close()


def test_revisions_form_one_line() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS))
    assert scripts.get_heads() == [head()]
    assert len(scripts.get_bases()) == 1


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    open_store(f"sqlite:///{path}").close()
    before = path.read_bytes()
    open_store(f"sqlite:///{path}").close()
    assert path.read_bytes() == before


def test_a_newer_schema_is_a_clear_error_and_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    store = open_store(url)
    with store.session() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(StoreError, match=r"schema '9999'.*newer Trimtab"):
        open_store(url)


def test_a_migration_that_fails_leaves_the_schema_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrations = tmp_path / "migrations"
    (migrations / "versions").mkdir(parents=True)
    for path in (*MIGRATIONS.glob("*.*"), *MIGRATIONS.glob("versions/*.py")):
        (migrations / path.relative_to(MIGRATIONS)).write_bytes(path.read_bytes())
    (migrations / "versions" / "broken.py").write_text(
        "from alembic import op\n"
        f"revision, down_revision = 'broken', {head()!r}\n"
        "def upgrade():\n"
        "    op.execute('CREATE TABLE half (id INTEGER)')\n"
        "    op.execute('DROP TABLE window')\n"
        "    raise RuntimeError('power cut')\n"
    )
    url = f"sqlite:///{tmp_path}/x.db"
    open_store(url).close()
    monkeypatch.setattr("store.schema.MIGRATIONS", migrations)
    with pytest.raises(RuntimeError, match="power cut"):
        open_store(url)
    monkeypatch.undo()
    engine = create_engine(url)
    names = inspect(engine).get_table_names()
    engine.dispose()
    assert "half" not in names
    assert "window" in names
    open_store(url).close()


def test_going_back_drops_every_table() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        upgrade_to_head(connection, "memory")
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()


def test_the_files_that_are_packaged_open_a_store_without_the_source_tree(tmp_path: Path) -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "store"
    ]
    packaged = {path for pattern in ("*.py", *patterns) for path in (ROOT / "store").glob(pattern)}
    for path in packaged:
        if path.is_file():
            target = tmp_path / "site" / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    program = (
        "import store, pathlib; "
        f"assert pathlib.Path(store.__file__).is_relative_to({str(tmp_path)!r}), store.__file__; "
        f"store.open_store('sqlite:///{tmp_path}/x.db').close()"
    )
    subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        check=True,
        timeout=60,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site")},
    )
