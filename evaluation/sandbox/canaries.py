"""Canaries of the self-test: files, listeners and a secret on the host, which show an escape afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import select
import shutil
import socket
import time
from pathlib import Path

import psutil

from evaluation.descendants import adopt_orphans, find_descendants
from evaluation.sandbox.interpreter import NOBODY
from evaluation.sandbox.zygotes import MARK, get_mark

FOLDER = Path("/tmp/bassline-canary")
LOCK = Path("/tmp/bassline-canary.lock")
PORT = 47813
ABSTRACT = "\0bassline-canary"
VARIABLE = "BASSLINE_CANARY_SECRET"
MARKER = "bassline_persist_marker"
DYING_S = 5.0
"""Killed processes may take this long to disappear from a busy machine; a process still there has escaped."""
MARKED_FOLDERS = ("/tmp", "/dev/shm", "/var/tmp", "/run")


class Canaries(contextlib.ExitStack):
    """A world-writable folder with a secret, listeners, a secret variable, and the child processes from before."""

    def __enter__(self) -> Canaries:
        """Set everything up, one self-test at a time; a folder that exists already is used and kept."""
        super().__enter__()
        # All installations on this machine use the same folder and port.
        lock = os.open(LOCK, os.O_RDONLY | os.O_CREAT, 0o644)
        self.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        secret = secrets.token_hex(12)
        if not FOLDER.exists():
            FOLDER.mkdir()
            self.callback(shutil.rmtree, FOLDER, ignore_errors=True)
            FOLDER.chmod(0o1777)
            (FOLDER / "secret.txt").write_text(f"SECRET {secret}\n")
            (FOLDER / "secret.txt").chmod(0o644)
        self._content = self._read_files()
        os.environ[VARIABLE] = secret
        self.callback(os.environ.pop, VARIABLE, None)
        self.unwatched: list[str] = []
        self._listeners: dict[str, socket.socket] = {}
        self._listen("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT))
        self._listen("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORT))
        self._listen("unix", socket.AF_UNIX, socket.SOCK_STREAM, ABSTRACT)
        for folder in MARKED_FOLDERS:
            with contextlib.suppress(OSError):
                (Path(folder) / MARKER).unlink()
        # An escaped process leaves its parent and becomes our child: other programs' processes are no concern of ours.
        self.enter_context(adopt_orphans())
        self._before = psutil.Process().children()
        return self

    def _listen(self, name: str, family: int, kind: int, address: tuple[str, int] | str) -> None:
        listener = self.enter_context(socket.socket(family, kind))
        try:
            listener.bind(address)
        except OSError:
            # Another process listens there, so an escape still connects, and the program's verdict shows it.
            self.unwatched.append(name)
            return
        if kind == socket.SOCK_STREAM:
            listener.listen()
        self._listeners[name] = listener

    def _read_files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in FOLDER.rglob("*")}

    def observe(self) -> dict[str, list[str]]:
        """Return the traces of escapes by kind of canary; all lists are empty where nothing escaped."""
        heard = [n for n, listener in self._listeners.items() if select.select([listener], [], [], 0)[0]]
        now = self._read_files()
        changed = sorted(path for path in {*now, *self._content} if now.get(path) != self._content.get(path))
        markers = [folder for folder in MARKED_FOLDERS if (Path(folder) / MARKER).exists()]
        deadline = time.monotonic() + DYING_S
        while (survivors := self._find_strays()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return {
            "connections": heard,
            "canary folder": changed,
            "persistent markers": markers,
            "surviving processes": survivors,
        }

    def _find_strays(self) -> list[str]:
        found = []
        for process in find_descendants(self._before):
            with contextlib.suppress(psutil.Error):  # it has just ended
                command = " ".join(process.cmdline())
                stray = os.geteuid() == 0 and process.uids().effective == NOBODY and command and MARK not in command
                if stray or get_mark() in command:
                    found.append(f"{process.pid} {command[:60]}")
        return found
