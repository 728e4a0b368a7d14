"""The self-test looks for what its own programs left behind, not for what else runs on the machine."""

import contextlib
import os
import subprocess
import sys

import psutil
import pytest

from evaluation.sandbox.canaries import Canaries
from evaluation.sandbox.interpreter import NOBODY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process of another user")

OTHER_PROGRAM = f"""
import subprocess, sys
sys.stdin.readline()
started = subprocess.Popen(["sleep", "600"], user={NOBODY})
print(started.pid, flush=True)
sys.stdin.readline()
started.kill()
"""
"""Starts a process of the guests' user when it is told to, as another Bassline does that compiles an answer."""

ESCAPE = f"""
import os
os.setgid({NOBODY})
os.setuid({NOBODY})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, str(os.getpid()).encode())
        os.close(1)
        os.execv("/bin/sleep", ["sleep", "600"])
os._exit(0)
"""
"""A daemon: its parents end at once."""


def test_a_process_that_another_program_started_is_not_a_survivor():
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        with Canaries() as canaries:
            other.stdin.write("start\n")
            other.stdin.flush()
            started = psutil.Process(int(other.stdout.readline()))
            assert started.uids().effective == NOBODY
            assert canaries.observe()["surviving processes"] == []
        other.stdin.write("stop\n")


def test_a_daemon_that_a_program_left_is_a_survivor(monkeypatch):
    monkeypatch.setattr("evaluation.sandbox.canaries.DYING_S", 0.0)
    with Canaries() as canaries:
        done = subprocess.run([sys.executable, "-c", ESCAPE], stdout=subprocess.PIPE, check=True)
        daemon = psutil.Process(int(done.stdout))
        try:
            (survivor,) = canaries.observe()["surviving processes"]
            assert survivor.startswith(f"{daemon.pid} ")
        finally:
            daemon.kill()
            with contextlib.suppress(psutil.Error):
                daemon.wait(30)
