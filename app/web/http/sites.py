"""Protection against other sites and machines: the sender of a request, its host name, addresses to redirect to."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from flask import Request

from app.core.errors import ForbiddenError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PORTS = {"http": 80, "https": 443}
# Browsers read a second slash as the beginning of a host, a backslash as a slash, and skip control characters.
_OWN = re.compile(r"/(?![/\\])[^\x00-\x1f\\\x7f]*")


def is_own_path(target: str) -> bool:
    """Whether every browser that is sent to `target` stays on this service."""
    return _OWN.fullmatch(target) is not None


def refuse_other_sites(request: Request) -> None:
    """Raises ForbiddenError for a change requested by a page of another site.

    Checks Sec-Fetch-Site, and Origin or else Referer; programs send neither. Browsers without Sec-Fetch-Site send
    Origin, or Referer if they omit Origin.
    """
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise ForbiddenError("this was sent by a page of another site: use the service's own pages")
    sender = request.headers.get("Origin", request.headers.get("Referer"))
    if sender is not None and _parse_address(sender) != _parse_address(f"{request.scheme}://{request.host}"):
        raise ForbiddenError(
            f"this was sent by a page of {sender[:100]}, the service is at {request.host}: use the service's own pages "
            "(behind a reverse proxy, set BASSLINE_PROXIES)"
        )


def refuse_other_names(request: Request) -> None:
    """Raises ForbiddenError for a host name other than this machine's, as a browser sends it after DNS rebinding."""
    known = _parse_address(f"{request.scheme}://{request.host}")
    if known is None or known[0] not in LOOPBACK:
        raise ForbiddenError(f"the host {request.host} is not this machine: open http://127.0.0.1 instead")


def refuse_other_machines(request: Request) -> None:
    """Raises ForbiddenError for a peer that is not this machine. The peer counts, because anybody can send any Host
    header.

    Behind reverse proxies that BASSLINE_PROXIES counts, the peer is the client that they name.
    """
    if not _is_loopback(request.remote_addr):
        raise ForbiddenError(
            "without tokens only this machine is served: set BASSLINE_REQUIRE_TOKENS=true and make a user with "
            "`bassline users create`"
        )


def _is_loopback(address: str | None) -> bool:
    try:
        peer = ipaddress.ip_address(address or "")
    except ValueError:
        return False  # of a Unix socket, or not known
    return (getattr(peer, "ipv4_mapped", None) or peer).is_loopback  # ::ffff:127.0.0.1 on a socket of both families


def _parse_address(url: str) -> tuple[str, int | None] | None:
    """(host, port) of a URL; None if it is not one, such as the Origin `null` of a sandboxed page.

    The scheme is left out, because a proxy that terminates TLS may not pass it on.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname:
        return None
    # A Host header omits the default port of its scheme, and the scheme is unknown here.
    return parts.hostname, None if port in PORTS.values() else port
