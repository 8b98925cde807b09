"""Where the face may listen."""

from __future__ import annotations

import pytest

from web.bind import UnsafeBind, check_bind


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]
)
def test_loopback_needs_no_token(host: str) -> None:
    check_bind(host, None)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "10.0.0.7", "node7.example", "::ffff:10.0.0.7", "127.0.0.1.example"]
)
@pytest.mark.parametrize("token", [None, ""])
def test_anything_else_is_refused_without_a_token(host: str, token: str | None) -> None:
    with pytest.raises(UnsafeBind, match=r"web\.token_file"):
        check_bind(host, token)


def test_a_token_allows_every_address() -> None:
    check_bind("0.0.0.0", "secret")
