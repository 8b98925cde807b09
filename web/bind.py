"""Where the face may listen: anything but loopback needs a token."""

from __future__ import annotations

import ipaddress


class UnsafeBind(ValueError):
    """The address would be reachable from other machines and no token guards it."""


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches `host`; a name other than localhost counts as reachable."""
    bare = host.strip().removeprefix("[").removesuffix("]")
    if bare.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def check_bind(host: str, token: str | None) -> None:
    """Refuse a bind that other machines reach unless a token is configured; raises `UnsafeBind`."""
    if not token and not is_loopback(host):
        raise UnsafeBind(
            f"web would listen on {host or 'every address'}, which other machines reach, without a token: "
            "set web.token_file, or bind 127.0.0.1"
        )
