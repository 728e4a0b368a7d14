"""Whose page sent a request, which host it was sent to, and whether an address leads to another site."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from flask import Request

from app.errors import Forbidden

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PORTS = {"http": 80, "https": 443}
# Browsers read a second slash as the beginning of a host, a backslash as a slash, and skip control characters.
_OWN = re.compile(r"/(?![/\\])[^\x00-\x1f\\\x7f]*")


def is_own_path(target: str) -> bool:
    """Whether every browser that is sent to `target` stays on this service."""
    return _OWN.fullmatch(target) is not None


def refuse_other_sites(request: Request) -> None:
    """Raises Forbidden for a change that a page of another site asks for.

    Each of the three headers is believed where it is present; programs send none of them. Browsers that know no
    Sec-Fetch-Site send Origin, and Referer where they leave that out.
    """
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise Forbidden("this was sent by a page of another site: use the service's own pages")
    sender = request.headers.get("Origin", request.headers.get("Referer"))
    if sender is not None and _address(sender) != _address(f"{request.scheme}://{request.host}"):
        raise Forbidden(
            f"this was sent by a page of {sender[:100]}, the service is at {request.host}: use the service's own pages "
            "(behind a reverse proxy, set BASSLINE_PROXIES)"
        )


def refuse_other_names(request: Request) -> None:
    """Raises Forbidden for a host name that is not this machine: a browser got there by a rebound DNS name."""
    known = _address(f"{request.scheme}://{request.host}")
    if known is None or known[0] not in LOOPBACK:
        raise Forbidden(f"the host {request.host} is not this machine: open http://127.0.0.1 instead")


def _address(url: str) -> tuple[str, int | None] | None:
    """(host, port) of an address, None for what is none, such as the Origin `null` of a sandboxed page.

    The scheme is not compared: a proxy that ends TLS may leave it unsaid.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not parts.hostname:
        return None
    # One of the usual ports is left out of a Host header, whichever scheme the browser spoke.
    return parts.hostname, None if port in PORTS.values() else port
