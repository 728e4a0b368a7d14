"""Servers that commands start for the arms of a study, awaited until they answer, and stopped with all they started.

Only the command line declares them: nobody makes this service run a command over REST.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO
from urllib.parse import urlsplit

import psutil

from app.core.remote.target import HEADERS_VARIABLE, KEY_VARIABLE, is_remote, list_secrets, mask_secrets, parse_target
from decoding.models.errors import ModelError

START_S = 600.0
POLL_S = 0.2
ANSWER_S = 5.0  # for a page that says whether the server is ready
STOP_S = 30.0  # from SIGTERM to SIGKILL
MAX_TOLD = 400  # characters of what a command has said last
TOLD_BYTES = 8192
_SECRET_VARIABLE = re.compile(r"[\w-]*(key|token|secret|password)", re.IGNORECASE)
_SECRET_FLAG = re.compile(rf"-{_SECRET_VARIABLE.pattern}", re.IGNORECASE)
_WATCH = 'read -r _; kill -s KILL -- "-$1"'
"""A shell script that ends a process group once the other end of its input is closed, as when we are killed."""
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class StopAskedError(Exception):
    """The wait for a server was given up because this process is stopping."""


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How a server is started, and the page that answers 200 once it is ready, within `start_s` seconds.

    `env` is added to this process's environment. It may hold secrets, so it is in no text about the command.
    """

    words: tuple[str, ...]
    health: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    start_s: float = START_S

    def describe(self) -> str:
        """The command as a shell takes it, without secrets."""
        shown, _ = self._split_secrets()
        return self.redact(shlex.join(shown))

    def redact(self, text: str) -> str:
        """The text with *** for the values of `env`, for other secrets, and for what flags keep secret; values of up to
        three characters stay."""
        _, values = self._split_secrets()
        return mask_secrets(text, (*self.env.values(), *values, *list_secrets()))

    def _split_secrets(self) -> tuple[list[str], list[str]]:
        """(the words with *** in place of what flags and variables keep secret, those secrets)."""
        shown, secrets = [], []
        for before, word in zip(("", *self.words), self.words, strict=False):
            name, equals, value = word.partition("=")
            if _SECRET_FLAG.fullmatch(before) and not word.startswith("-"):
                shown.append("***")
                secrets.append(word)
            elif equals and _SECRET_VARIABLE.fullmatch(name):
                shown.append(f"{name}=***")
                secrets.append(value)
            else:
                shown.append(word)
        return shown, secrets


class CommandServers:
    """The servers of this process's studies, by endpoint. With `one_at_a_time` each is stopped before another starts,
    as where they share a GPU."""

    def __init__(self) -> None:
        self.one_at_a_time = False
        self._commands: dict[str, ServerCommand] = {}
        self._facts: dict[str, Mapping[str, str]] = {}
        self._running: dict[str, _RunningServer] = {}
        self._lock = threading.Lock()  # one starts or stops at a time

    def declare(self, target: str, command: ServerCommand | None, facts: Mapping[str, str]) -> None:
        """Declares the endpoint of a target: the command that starts it, if any, and facts for the provenance."""
        url = parse_target(target).base_url
        if command is not None:
            self._commands[url] = command
            facts = {**facts, "server_command": command.describe()}
        self._facts[target] = facts

    def is_started_here(self, target: str) -> bool:
        """Whether a command starts the target's server, so that it need not answer yet."""
        return is_remote(target) and parse_target(target).base_url in self._commands

    def get_facts(self, target: str) -> Mapping[str, str]:
        """What was declared about a target, for the provenance of its runs."""
        return self._facts.get(target, {})

    def make_ready(self, target: str, should_stop: Callable[[], bool]) -> bool:
        """Starts the target's server unless it runs, and waits for it; True if it was started by this call.

        For a target that no command starts it only stops others. Raises ModelError for a command that does not
        start, that ends, or that is not ready in time; StopAskedError when `should_stop` says so.
        """
        url = parse_target(target).base_url if is_remote(target) else ""
        with self._lock:
            if self.one_at_a_time:
                self._stop_all(but=url)
            if url not in self._commands:
                return False
            if (server := self._running.get(url)) is not None:
                server.require_alive()
                return False
            server = self._running[url] = _RunningServer(url, self._commands[url])
            try:
                server.wait_until_ready(should_stop)
            except BaseException:
                del self._running[url]
                server.stop()
                raise
            return True

    def stop(self) -> None:
        """Stops all servers, each with everything that it started."""
        with self._lock:
            self._stop_all()

    def _stop_all(self, but: str = "") -> None:
        for url in [url for url in self._running if url != but]:
            self._running.pop(url).stop()


class _RunningServer:
    """A command's process, the leader of a group of its own, and what it writes."""

    def __init__(self, url: str, command: ServerCommand) -> None:
        """Raises ModelError where nothing can be started."""
        self._url, self._command = url, command
        _require_free(url)
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
        own = {name: value for name, value in os.environ.items() if name not in (KEY_VARIABLE, HEADERS_VARIABLE)}
        try:
            self._process = subprocess.Popen(
                command.words, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
                env={**own, **command.env}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._log.close()
            raise ModelError(
                f"the command of {url} cannot be started: {command.words[0]}: {error.strerror}; install it, or correct "
                "the command"
            ) from None
        # No PR_SET_PDEATHSIG: it would end the server with the worker's thread, and not what the server started.
        self._watch = subprocess.Popen(
            ("/bin/sh", "-c", _WATCH, "sh", str(self._process.pid)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def require_alive(self) -> None:
        """Raises ModelError if the command has ended."""
        if (status := self._process.poll()) is not None:
            raise ModelError(f"the command of {self._url} has ended with status {status}{self._read_last_words()}")

    def wait_until_ready(self, should_stop: Callable[[], bool]) -> None:
        """Returns once the server answers. Raises ModelError, StopAskedError."""
        deadline = time.monotonic() + self._command.start_s
        while not _is_healthy(self._command.health):
            self.require_alive()
            if should_stop():
                raise StopAskedError
            if time.monotonic() > deadline:
                raise ModelError(
                    f"the command of {self._url} was not ready within {self._command.start_s:g} s: "
                    f"{self._command.health} does not answer 200; set start_s or health{self._read_last_words()}"
                )
            time.sleep(POLL_S)
        self.require_alive()  # else another server has answered

    def stop(self) -> None:
        """Ends the process and all descendants, forcibly after STOP_S."""
        members: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self._process.pid)
            members = [leader, *leader.children(recursive=True)]
        for other in psutil.process_iter():  # of its group, although its parent has ended
            with contextlib.suppress(OSError, psutil.Error):
                if os.getpgid(other.pid) == self._process.pid and other not in members:
                    members.append(other)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for member in members:
                with contextlib.suppress(psutil.Error):
                    member.send_signal(number)
            _, members = psutil.wait_procs(members, timeout=STOP_S)
        self._watch.kill()
        self._watch.communicate()
        self._process.wait()
        self._log.close()

    def _read_last_words(self) -> str:
        """The end of what the command has written, as the end of a sentence."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(self._log.tell() - TOLD_BYTES, 0))
        lines = _CONTROL.sub("", self._log.read().decode("utf-8", "replace").replace("\r", "\n")).splitlines()
        said = self._command.redact(" / ".join(line.strip() for line in lines if line.strip()))
        return f"; it said last: {said[-MAX_TOLD:]}" if said else "; it said nothing"


def _is_healthy(url: str) -> bool:
    import httpx2  # noqa: PLC0415 (the command line starts sooner)

    with contextlib.suppress(httpx2.HTTPError, httpx2.InvalidURL):
        return httpx2.get(url, timeout=ANSWER_S, trust_env=False).status_code == httpx2.codes.OK
    return False


def _require_free(url: str) -> None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with contextlib.suppress(OSError), socket.create_connection((parts.hostname or "", port), ANSWER_S):
        raise ModelError(f"something answers at {url} already: end it, or give the arm another port")
