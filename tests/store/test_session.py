"""Opening the store and its sessions: what is durable, what is refused, and with which words."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from store import Store, StoreError, open_store
from store.models import Pair, Promoted


def promoted(engine: str = "http://127.0.0.1:8000") -> Promoted:
    return Promoted(engine=engine, launch={}, ceilings={}, values={"a": 1}, campaign_id=None, time=1.0)


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    url = "sqlite:///:memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/trimtab.db"
    opened = open_store(url)
    request.addfinalizer(opened.close)
    return opened


class TestSession:
    def test_commits_on_success(self, store: Store) -> None:
        with store.session() as session:
            session.add(promoted())
        with store.reading() as session:
            assert session.get_one(Promoted, "http://127.0.0.1:8000").values == {"a": 1}

    def test_rolls_back_on_an_error(self, store: Store) -> None:
        with pytest.raises(RuntimeError), store.session() as session:
            session.add(promoted())
            session.flush()
            raise RuntimeError
        with store.reading() as session:
            assert session.get(Promoted, "http://127.0.0.1:8000") is None

    def test_objects_stay_readable_after_it(self, store: Store) -> None:
        with store.session() as session:
            row = promoted()
            session.add(row)
        assert row.values == {"a": 1}

    def test_a_broken_constraint_is_not_the_stores_fault(self, store: Store) -> None:
        with pytest.raises(IntegrityError), store.session() as session:
            session.add(Pair(campaign_id=5, block=0, trial=1, phase="race", gain=0, adjusted=0, others={}))

    def test_one_inside_another_is_refused_and_leaves_the_outer_whole(self, store: Store) -> None:
        with store.session() as session:
            session.add(promoted())
            with pytest.raises(StoreError, match="already open"), store.session():
                pass
        with store.reading() as session:
            assert session.get(Promoted, "http://127.0.0.1:8000") is not None

    def test_threads_take_turns(self, store: Store) -> None:
        def write(number: int) -> None:
            for turn in range(20):
                with store.session() as session:
                    session.add(promoted(f"{number}/{turn}"))

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.reading() as session:
            assert session.query(Promoted).count() == 80


class TestPragmas:
    def test_what_is_committed_survives_a_power_cut(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path}/trimtab.db")
        with store.session() as session:
            assert session.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
            assert session.execute(text("PRAGMA synchronous")).scalar_one() == 2
            assert session.execute(text("PRAGMA foreign_keys")).scalar_one() == 1
        store.close()

    def test_a_reader_sees_the_view_it_began_with(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/trimtab.db"
        one, other = open_store(url), open_store(url)
        with one.reading() as session:
            assert session.query(Promoted).count() == 0
            with other.session() as writing:
                writing.add(promoted())
            assert session.query(Promoted).count() == 0
        with one.reading() as session:
            assert session.query(Promoted).count() == 1
        one.close()
        other.close()


class TestRefused:
    @pytest.mark.parametrize("url", ["", "nonsense", "postgresql://localhost/x", "sqlite+aiosqlite:///x"])
    def test_an_address_that_is_not_sqlite(self, url: str) -> None:
        with pytest.raises(StoreError, match="expected sqlite:"):
            open_store(url)

    def test_a_file_that_is_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "x.db").write_bytes(b"the quick brown fox " * 500)
        with pytest.raises(StoreError, match="not a database"):
            open_store(f"sqlite:///{tmp_path}/x.db")

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.db"
        store = open_store(f"sqlite:///{path}")
        with store.session() as session:
            session.add_all(promoted(f"{n:0500}") for n in range(200))
        store.close()
        whole = bytearray(path.read_bytes())
        for page in range(8, len(whole) // 4096, 3):
            whole[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
        path.write_bytes(whole)
        with pytest.raises(StoreError, match="damaged"):
            open_store(f"sqlite:///{path}")

    def test_a_folder_in_the_place_of_the_file(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="unable to open"):
            open_store(f"sqlite:///{tmp_path}")

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(StoreError, match="folder cannot be made"):
            open_store(f"sqlite:///{tmp_path}/file/trimtab.db")

    def test_another_programs_database(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "x.db") as other:
            other.execute("CREATE TABLE bookmarks (id INTEGER)")
        other.close()
        with pytest.raises(StoreError, match="another program"):
            open_store(f"sqlite:///{tmp_path}/x.db")

    def test_a_file_that_may_only_be_read(self, tmp_path: Path) -> None:
        open_store(f"sqlite:///{tmp_path}/x.db").close()
        store = open_store(f"sqlite:///file:{tmp_path}/x.db?mode=ro&uri=true")
        with pytest.raises(StoreError, match="cannot be written"), store.session() as session:
            session.add(promoted())
        store.close()

    def test_a_full_disk_says_so_and_heals_by_itself(self, tmp_path: Path) -> None:
        store = open_store(f"sqlite:///{tmp_path}/x.db")
        with pytest.raises(StoreError, match=r"full.*free some space"), store.session() as session:
            session.execute(text("PRAGMA max_page_count = 1"))
            session.add_all(promoted(f"{n:0900}") for n in range(200))
        with store.session() as session:
            session.execute(text("PRAGMA max_page_count = 1000000"))
            session.add(promoted())
        with store.reading() as session:
            assert session.query(Promoted).count() == 1
        store.close()

    def test_a_file_held_by_another_process(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("store.session.BUSY_SECONDS", 0.05)
        store = open_store(f"sqlite:///{tmp_path}/x.db")
        holder = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process holds it"), store.session() as session:
            session.add(promoted())
        holder.close()
        store.close()


def test_a_writer_killed_in_the_middle_leaves_what_was_committed(tmp_path: Path) -> None:
    program = f"""
import os
from store import open_store
from store.models import Promoted
store = open_store("sqlite:///{tmp_path}/x.db")
row = lambda engine: Promoted(engine=engine, launch={{}}, ceilings={{}}, values={{}}, campaign_id=None, time=1.0)
with store.session() as session:
    session.add(row("kept"))
with store.session() as session:
    session.add(row("lost"))
    session.flush()
    os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, timeout=30)
    assert killed.returncode == -9
    store = open_store(f"sqlite:///{tmp_path}/x.db")
    with store.reading() as session:
        assert [row.engine for row in session.query(Promoted)] == ["kept"]
    store.close()
