"""Opening the store: one SQLite file (or memory) at the newest schema, with short sessions over it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, StaticPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, ProgrammingError
from sqlalchemy.orm import Session

from store.errors import StoreError
from store.schema import upgrade_to_head

BUSY_SECONDS = 5.0
"""How long a session waits for another process's session before it gives up."""


class Store:
    """The memory of Trimtab: what was tried, decided and changed."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        # A reader takes no write lock, so that pages stay quick while a campaign writes.
        self._reading_engine = engine.execution_options(trimtab_begin="BEGIN")
        self._name = name
        self._open_here = threading.local()
        # In memory there is one connection for all threads: their sessions take turns.
        self._turn = threading.Lock() if isinstance(engine.pool, StaticPool) else None

    @property
    def name(self) -> str:
        """Where the store lives: a path, or `:memory:`."""
        return self._name

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session that commits on success and rolls back on an error.

        It holds the write lock from its first statement on, so keep it short, and never wait for anything
        inside. Objects stay readable after it. Raises `StoreError` when the store cannot be read or written,
        or when this thread has one open already.
        """
        with self._one(self._engine) as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session over one consistent view, for reading only; the same rules as `session`."""
        with self._one(self._reading_engine) as session:
            yield session

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    @contextmanager
    def _one(self, engine: Engine) -> Iterator[Session]:
        # Joining an outer transaction would make the journal's "written before the change" a lie.
        if getattr(self._open_here, "yes", False):
            raise StoreError(
                f"a session on {self._name} is already open here: close it before opening another"
            )
        self._open_here.yes = True
        try:
            with self._my_turn(), explained(self._name), Session(engine, expire_on_commit=False) as session:
                yield session
                session.commit()
        finally:
            self._open_here.yes = False

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise StoreError(
                f"{self._name} is busy: another session has been open for over {BUSY_SECONDS:g} s"
            )
        try:
            yield
        finally:
            self._turn.release()


def open_store(url: str) -> Store:
    """Open the store at an SQLAlchemy SQLite URL, creating it or bringing it to the newest schema.

    `sqlite:///relative.db`, `sqlite:////absolute.db` or `sqlite:///:memory:`. Raises `StoreError` for a file
    that is damaged, not ours, of a newer Trimtab, or cannot be written.
    """
    parsed = _sqlite_url(url)
    in_memory = parsed.database in (None, "", ":memory:")
    name = ":memory:" if in_memory else str(parsed.database)
    if not in_memory and "uri" not in parsed.query:
        _make_folder(Path(name))
    engine = _engine(parsed, in_memory)
    try:
        with explained(name):
            with engine.connect() as connection:
                _check_health(connection, name, in_memory)
            with engine.begin() as connection:
                upgrade_to_head(connection, name)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, name)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn complaints about the file into a `StoreError`; a broken constraint or statement is our fault."""
    try:
        yield
    except (IntegrityError, ProgrammingError):
        raise
    except DatabaseError as error:
        raise StoreError(f"{name}: {error.orig}{_mend(str(error.orig))}") from error


_MENDS = (
    ("malformed", "the file is damaged: move it away and start again, or restore a copy"),
    ("not a database", "this is not an SQLite file: check store.url"),
    ("disk is full", "free some space"),
    ("disk I/O error", "check the disk and its free space"),
    ("readonly", "the file cannot be written: check its owner and mode"),
    ("unable to open", "check that the folder exists and can be written"),
    ("locked", "another process holds it: find it with `fuser`"),
)


def _mend(text: str) -> str:
    return next((f" ({mend})" for sign, mend in _MENDS if sign in text), "")


def _sqlite_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"store url {url!r} is not a URL: expected sqlite:////path/to/trimtab.db") from error
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise StoreError(f"store url is for {parsed.drivername!r}: expected sqlite:////path/to/trimtab.db")
    return parsed


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path}: the folder cannot be made: {error.strerror} (check store.url)") from error


def _engine(url: URL, in_memory: bool) -> Engine:
    # isolation_level None: the driver begins nothing, `_begin` does, so that schema changes roll back too.
    arguments: dict[str, Any] = {"isolation_level": None, "timeout": BUSY_SECONDS, "check_same_thread": False}
    if in_memory:
        engine = create_engine(url, connect_args=arguments, poolclass=StaticPool)
    else:
        engine = create_engine(url, connect_args=arguments)
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _set_pragmas(connection: sqlite3.Connection, _record: object) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
    finally:
        cursor.close()


def _begin(connection: Connection) -> None:
    # IMMEDIATE by default: a read that turns into a write after somebody else's commit would fail at once.
    connection.exec_driver_sql(connection.get_execution_options().get("trimtab_begin", "BEGIN IMMEDIATE"))


def _check_health(connection: Connection, name: str, in_memory: bool) -> None:
    mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
    if mode != "wal" and not in_memory:
        raise StoreError(
            f"{name}: write-ahead logging is refused here (mode {mode}): use a local file system"
        )
    verdict = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if verdict != "ok":
        raise StoreError(
            f"{name}: {verdict} (the file is damaged: move it away and start again, or restore a copy)"
        )
