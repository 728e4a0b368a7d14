"""Which user of this machine sent a request: without tokens, others must not have code run with the owner's rights."""

from __future__ import annotations

import os
from pathlib import Path

from flask import Request

from app.core.errors import ForbiddenError

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _UID = 1, 2, 7  # columns


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
