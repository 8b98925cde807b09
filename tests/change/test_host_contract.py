"""The host that other tests use keeps the contract of `HostControl`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from change.host import HostControl
from tests.change.host_contract import HostContract
from tests.change.plain_host import PlainHost


class TestPlainHost(HostContract):
    @contextmanager
    def host(self) -> Iterator[HostControl]:
        yield PlainHost()
