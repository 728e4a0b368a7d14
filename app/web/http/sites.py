"""Protection against other sites, machines and users: the sender of a request, its host name, addresses to redirect to.

Without tokens, another user of this machine must not have code run with the owner's rights.
"""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from flask import Request

from app.core.errors import ForbiddenError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PORTS = {"http": 80, "https": 443}
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _UID = 1, 2, 7  # columns
# Browsers read a second slash as the beginning of a host, a backslash as a slash, and skip control characters.
_OWN = re.compile(r"/(?![/\\])[^\x00-\x1f\\\x7f]*")


def is_own_path(target: str) -> bool:
    """Whether every browser that is sent to `target` stays on this service."""
    return _OWN.fullmatch(target) is not None


def refuse_other_sites(request: Request) -> None:
    """Raises ForbiddenError for a change requested by a page of another site.

    Browsers send Sec-Fetch-Site, or else Origin, or else Referer; programs send none of them.
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


def refuse_other_users(request: Request) -> None:
    """Raises ForbiddenError for a request by a user of this machine other than root and the one who runs the service.

    Where the system does not tell, as on macOS, everybody is served.
    """
    ports = request.environ.get("REMOTE_PORT"), request.environ.get("SERVER_PORT")
    if not all(ports) or not TABLES[0].exists():
        return
    uid = find_user(int(str(ports[0])), int(str(ports[1])))
    if uid not in (0, os.geteuid()):
        raise ForbiddenError(
            "only the user who runs the service may have code run on this machine: start a service of your own, or ask "
            "for one that requires tokens"
        )


def find_user(port: int, server_port: int) -> int | None:
    """The user whose connection goes from one port of this machine to another; None where there is none."""
    for table in TABLES:
        for line in table.read_text("ascii").splitlines()[1:] if table.exists() else ():
            columns = line.split()
            here, there = (int(columns[place].rpartition(":")[2], 16) for place in (_LOCAL, _REMOTE))
            if (here, there) == (port, server_port):
                return int(columns[_UID])
    return None


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
