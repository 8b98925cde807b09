"""A store that may be away: the daemon goes on without it, changes nothing, and finds it again by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from store import Store, StoreError, open_store

AGAIN_SECONDS = 10.0


class PatientStore(Store):
    """Opens the store when it is first needed, and again after a pause while it cannot be opened.

    Every session raises `StoreError` until then, so that the journal is unwritable and no change is made.
    """

    def __init__(self, url: str, clock: Callable[[], float]) -> None:
        self._url = url
        self._clock = clock
        self._inner: Store | None = None
        self._error: StoreError | None = None
        self._again_at = 0.0

    @property
    def name(self) -> str:
        """Where the store lives."""
        return self._url if self._inner is None else self._inner.name

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session that commits on success; see `Store.session`."""
        with self._opened().session() as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session for reading only; see `Store.reading`."""
        with self._opened().reading() as session:
            yield session

    def close(self) -> None:
        """Close every connection."""
        if self._inner is not None:
            self._inner.close()

    def _opened(self) -> Store:
        if self._inner is not None:
            return self._inner
        now = self._clock()
        if self._error is not None and now < self._again_at:
            raise StoreError(str(self._error))
        try:
            self._inner = open_store(self._url)
        except StoreError as error:
            self._error, self._again_at = error, now + AGAIN_SECONDS
            raise
        return self._inner
