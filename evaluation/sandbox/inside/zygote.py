"""The zygote: a warm interpreter inside the sandbox that forks one confined process per job.

It saves the start of Python and its imports. It never sees a program, a test or a value: those go straight to
the forked process, through pipes that arrive with the job and are closed here at once. The forked process
cannot signal, trace or write to the zygote, and it cannot fork, so killing it kills the job.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
from typing import Any

from evaluation.sandbox.inside import hardening

ROLES = {"guest": "serve", "checker": "check"}
"""Module, beside this one, and function of each role."""


def main(control: socket.socket, settings: dict[str, Any]) -> None:
    """Fork a process per job until the supervisor closes the control socket.

    Each job is one message with its descriptors; the next message ends the job, and a report answers it.
    """
    hardening.guard_parent()
    if not settings["namespaces"]:
        os.chdir("/")
    for name in settings["preload"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    role = importlib.import_module("evaluation.sandbox.inside." + settings["role"])
    abi = hardening.landlock_abi() if settings["landlock"] else 0
    ruleset = hardening.landlock_ruleset(abi, settings["trees"], settings["hidden"]) if abi else None
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"landlock_abi": abi}).encode())
    me = os.getpid()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65536, 8)
        if not message:
            return
        child = os.fork()
        if child == 0:
            try:
                control.close()
                _work(role, json.loads(message), settings, descriptors, ruleset, me)
            finally:
                os._exit(70)
        for descriptor in descriptors:
            os.close(descriptor)
        wanted = control.recv(64)
        os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        if not wanted:
            return
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        report = {"exit_code": code, "cpu_s": usage.ru_utime + usage.ru_stime, "max_rss_kib": usage.ru_maxrss}
        control.send(json.dumps(report).encode())


def _work(
    role: Any, job: dict[str, Any], settings: dict[str, Any], descriptors: list[int], ruleset: int | None, parent: int
) -> None:
    keep = descriptors[1:] + ([] if ruleset is None else [ruleset])
    hardening.place_descriptors(descriptors[0], keep)
    try:
        hardening.set_limits(job["limits"])
        last = None if ruleset is None else 2 + len(keep)
        hardening.confine(parent, last, settings["kill_calls"], bytes.fromhex(settings["filter"]))
    except (OSError, ValueError) as error:
        role.refuse(f"the process could not be confined: {error}")
        os._exit(71)
    getattr(role, ROLES[settings["role"]])()
    os._exit(0)
