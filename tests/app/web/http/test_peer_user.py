"""The user behind a connection from this machine: the owner of the service is served, another user is refused."""

from __future__ import annotations

import os
import socket

import pytest
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from app.core.errors import ForbiddenError
from app.web.http import sites
from app.web.http.sites import find_user, refuse_other_users

LINE = "   0: 0100007F:%04X 0100007F:%04X 01 00000000:00000000 00:00000000 00000000 %5d        0 12345 1 0000 20\n"


def ask(port: int, server_port: int) -> None:
    environ = EnvironBuilder(environ_overrides={"REMOTE_PORT": str(port), "SERVER_PORT": str(server_port)})
    refuse_other_users(Request(environ.get_environ()))


@pytest.mark.skipif(not sites.TABLES[0].exists(), reason="the system does not tell")
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_user_of_a_connection_is_found(family, host):
    with socket.socket(family) as server:
        try:
            server.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} here")
        server.listen()
        with socket.create_connection(server.getsockname()[:2]) as client:
            ports = client.getsockname()[1], server.getsockname()[1]
            assert find_user(*ports) == os.geteuid()
            ask(*ports)


def test_another_user_is_refused(tmp_path, monkeypatch):
    table = tmp_path / "tcp"
    other = os.geteuid() + 1000
    monkeypatch.setattr(sites, "TABLES", (table, tmp_path / "none"))
    table.write_text("  sl  local_address rem_address\n" + LINE % (8000, 50000, 0) + LINE % (50000, 8000, other))
    for port in (50000, 50001):  # the second one is gone, so nobody knows whose it was
        with pytest.raises(ForbiddenError, match="only the user who runs the service"):
            ask(port, 8000)
    table.write_text("  sl  local_address rem_address\n" + LINE % (50000, 8000, 0))
    ask(50000, 8000)


def test_where_the_system_does_not_tell_everybody_is_served(tmp_path, monkeypatch):
    monkeypatch.setattr(sites, "TABLES", (tmp_path / "none",))
    ask(50000, 8000)
