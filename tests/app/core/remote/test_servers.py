"""Commands that start servers: awaited, said in one sentence when they fail, and stopped with all that they started."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import httpx2
import psutil
import pytest

from app.core.remote import servers as module
from app.core.remote.servers import CommandServers, ServerCommand, StopAskedError
from app.core.remote.target import HEADERS_VARIABLE, KEY_VARIABLE
from decoding.models.errors import ModelError
from tests.integration.waiting import wait_for
from tests.processes import list_own_processes

STUB = (sys.executable, "-m", "tests.app.stub_program")
NEVER_READY = "import time; print('loading weights', flush=True); time.sleep(600)"


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def goes_on() -> bool:
    return False


@pytest.fixture
def declare() -> Iterator[Callable[..., tuple[CommandServers, str, int]]]:
    """Declares a command for a port of its own: returns the servers, the target and the port."""
    servers = CommandServers()

    def make(*words: str, start_s: float = 60, env: dict | None = None, port: int = 0):
        port = port or find_free_port()
        root = f"http://127.0.0.1:{port}"
        filled = tuple(word.replace("{port}", str(port)) for word in words)
        target = f"openai:m@{root}/v1"
        servers.declare(target, ServerCommand(filled, f"{root}/health", env or {}, start_s), {"engine": "stub"})
        return servers, target, port

    yield make
    servers.stop()


def answers(port: int) -> bool:
    with contextlib.suppress(httpx2.HTTPError):
        return httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    return False


def test_a_server_is_started_once_and_awaited(declare):
    servers, target, port = declare(*STUB, "{port}")
    assert servers.is_started_here(target)
    assert servers.make_ready(target, goes_on) is True
    assert answers(port)
    assert servers.make_ready(target, goes_on) is False
    servers.stop()
    assert not answers(port)


def test_everything_that_a_server_started_ends_with_it_even_what_ignores_the_signal(declare, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STOP_S", 0.5)
    servers, target, _ = declare(*STUB, "{port}", "child", str(tmp_path / "pid"))
    servers.make_ready(target, goes_on)
    child = psutil.Process(int((tmp_path / "pid").read_text()))
    assert child.is_running()
    servers.stop()
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_with_one_at_a_time_a_server_makes_way_for_the_next_one(declare):
    servers, first, first_port = declare(*STUB, "{port}")
    _, second, second_port = declare(*STUB, "{port}")
    servers.one_at_a_time = True
    servers.make_ready(first, goes_on)
    servers.make_ready(second, goes_on)
    assert (answers(first_port), answers(second_port)) == (False, True)
    servers.make_ready("smollm2-135m", goes_on)  # our own engine shares the GPU, too
    assert not answers(second_port)


STARTS_ONE_AND_WAITS = """
import sys
from app.core.remote.servers import CommandServers, ServerCommand
servers = CommandServers()
root, words = sys.argv[1], tuple(sys.argv[2:])
servers.declare(f"openai:m@{root}/v1", ServerCommand(words, f"{root}/health"), {})
servers.make_ready(f"openai:m@{root}/v1", lambda: False)
print("ready", flush=True)
sys.stdin.read()
"""


def test_servers_end_with_what_they_started_when_this_process_is_killed(tmp_path):
    port = find_free_port()
    words = (*STUB, str(port), "child", str(tmp_path / "pid"))
    command = [sys.executable, "-c", STARTS_ONE_AND_WAITS, f"http://127.0.0.1:{port}", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout.readline() == b"ready\n"
        child = psutil.Process(int((tmp_path / "pid").read_text()))
        assert answers(port)
        starter.kill()
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    wait_for(lambda: not answers(port))


FAULTS = {
    "ends": (
        ("-c", "print('no such model: x'); raise SystemExit(3)"),
        60,
        r"has ended with status 3; it said last: no such model: x$",
    ),
    "ends and says nothing": (("-c", "raise SystemExit(0)"), 60, "has ended with status 0; it said nothing$"),
    "is never ready": (
        ("-c", NEVER_READY),
        0.5,
        r"was not ready within 0\.5 s: http://.*/health does not answer 200; set start_s or health; it said last: "
        "loading weights$",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_command_that_does_not_become_ready_is_one_sentence(declare, fault):
    words, start_s, sentence = FAULTS[fault]
    servers, target, port = declare(sys.executable, *words, start_s=start_s)
    with pytest.raises(ModelError, match=rf"^the command of http://127.0.0.1:{port}/v1 {sentence}") as failed:
        servers.make_ready(target, goes_on)
    assert "\n" not in str(failed.value)
    assert not list_own_processes(words[1])


def test_a_program_that_is_not_there_is_said(declare):
    servers, target, _ = declare("no-such-server", "--port", "{port}")
    with pytest.raises(ModelError, match=r"cannot be started: no-such-server: No such file.*; install it, or correct"):
        servers.make_ready(target, goes_on)


def test_a_port_at_which_something_answers_is_not_taken_for_the_server(declare):
    with socket.create_server(("127.0.0.1", 0)) as other:
        servers, target, _ = declare(*STUB, "{port}", port=other.getsockname()[1])
        with pytest.raises(
            ModelError, match=r"something answers at http://.* already: end it, or give the arm another"
        ):
            servers.make_ready(target, goes_on)


def test_a_server_that_has_ended_meanwhile_is_said_and_not_started_again(declare):
    servers, target, _ = declare(*STUB, "{port}")
    servers.make_ready(target, goes_on)
    (process,) = list_own_processes("tests.app.stub_program")
    process.kill()
    # A zombie whose threads have not ended yet cannot be waited for.
    wait_for(lambda: os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
    with pytest.raises(ModelError, match="has ended with status -9; it said last: serving on"):
        servers.make_ready(target, goes_on)


def test_the_wait_ends_when_this_process_stops(declare):
    servers, target, _ = declare(sys.executable, "-c", NEVER_READY)
    stopping = threading.Event()
    threading.Timer(0.3, stopping.set).start()
    with pytest.raises(StopAskedError):
        servers.make_ready(target, stopping.is_set)


def test_secrets_of_a_command_are_in_no_text_about_it(declare, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "sk-remote-secret")
    says = "import os, sys; print(os.environ['TOKEN'], *sys.argv[1:]); raise SystemExit(1)"
    flags = "--api-key", "sk-flag-secret", "--hf-token=hf-secret", "HF_TOKEN=variable-secret"
    words = ("-c", says, *flags, "--use-key", "--max-tokens", "5")
    servers, target, _ = declare(sys.executable, *words, env={"TOKEN": "env-secret"})
    with pytest.raises(ModelError) as failed:
        servers.make_ready(target, goes_on)
    told = f"{failed.value} {json.dumps(dict(servers.get_facts(target)))} {servers._commands!r}"
    assert "***" in str(failed.value)
    assert "env-secret" not in told
    assert "secret" not in f"{failed.value} {servers.get_facts(target)}"
    assert shlex.split(servers.get_facts(target)["server_command"])[-7:] == [
        *("--api-key", "***", "--hf-token=***", "HF_TOKEN=***", "--use-key", "--max-tokens", "5")
    ]


def test_a_server_does_not_get_the_secrets_of_other_endpoints(declare, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, '{"http://elsewhere/v1": "sk-elsewhere"}')
    monkeypatch.setenv(HEADERS_VARIABLE, '{"http://elsewhere/v1": {"a": "b"}}')
    secrets = (KEY_VARIABLE, HEADERS_VARIABLE)
    tells = f"import os; print([name for name in {secrets} if name in os.environ]); raise SystemExit(1)"
    servers, target, _ = declare(sys.executable, "-c", tells)
    with pytest.raises(ModelError, match=r"it said last: \[\]$"):
        servers.make_ready(target, goes_on)
