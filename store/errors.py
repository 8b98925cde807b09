"""What the store raises when its memory cannot be read or written."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not be opened, read or written; the text says which file, why and how to mend it."""
