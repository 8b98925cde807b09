"""Memory: the models, the session over one SQLite file, its migrations and the queries."""

from store.errors import StoreError
from store.session import Store, open_store

__all__ = ["Store", "StoreError", "open_store"]
