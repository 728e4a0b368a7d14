"""The zygote: a warm interpreter inside the sandbox that forks one confined process per job.

It saves the start of Python and its imports. It never sees a program, a test or a value: those go directly to the
forked process, through pipes that arrive with the job and that the zygote closes at once. The forked process cannot
signal, trace or write to the zygote. It cannot fork, unless it is a compiler, and cannot leave its process group, so
killing the group ends the job.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from evaluation.sandbox.inside import hardening, semaphores
from evaluation.sandbox.inside.cpu_clock import read_cpu_s
from evaluation.sandbox.inside.scratch import Scratch

_TICK_S = 0.01
_COUNT_S = 0.05
"""How often the files of a job are counted."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def main(control: socket.socket, settings: dict[str, Any]) -> None:
    """Fork a process per job until the supervisor closes the control socket.

    Each job is one message with its descriptors; the next message ends the job, and a report answers it.
    """
    hardening.guard_zygote()
    hardening.adopt_orphans()
    if not settings["namespaces"]:
        os.chdir("/")
    scratch = _open_scratch(settings["scratch"])
    role = _prepare_interpreter(settings)
    abi = hardening.get_landlock_abi()
    ruleset = hardening.create_landlock_ruleset(abi, settings) if abi else None
    filters = hardening.build_own_pid_filter(settings["kill_calls"]), bytes.fromhex(settings["filter"])
    if scratch is not None:
        scratch.empty()
    known, job, limits = b"", {}, []
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"landlock_abi": abi}).encode())
    me = os.getpid()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65536, 8)
        if not message:
            return
        # After a fork every page that either side writes is copied, so work common to all jobs is done before it.
        if message != known:
            known, job = message, json.loads(message)
            limits = hardening.resolve_limits(job["rlimits"])
        child = os.fork()
        if child == 0:
            status = 70
            try:
                status = _work(role, job, limits, descriptors, me, ruleset, filters)
            finally:
                os._exit(status)
        for descriptor in descriptors:
            os.close(descriptor)
        _enforce_limits(child, job["cpu_s"], scratch, control)
        wanted = control.recv(64)
        report = _kill_job(child)
        if not wanted:
            return
        left = (0, 0)
        if scratch is not None:
            left = int(scratch.has_been_used()), int(scratch.has_too_many_files())
            scratch.empty()
        control.send(b'{"exit_code":%d,"cpu_s":%f,"memory_kib":%d,"wrote":%d,"too_many_files":%d}' % (*report, *left))


def _prepare_interpreter(settings: dict[str, Any]) -> Any:
    """Import what jobs need, once for all, hide the machine, replace multiprocessing's locks; return the module of the
    zygote's role."""
    sys.path.extend(folder for folder in (settings["packages"], settings["judge_packages"]) if folder)
    for name in settings["preload"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _import_compiled(settings["judge_modules"])
    hardening.cache_import_folders()
    hardening.hide_machine()
    semaphores.install()
    role = importlib.import_module("evaluation.sandbox.inside." + settings["role"])
    if settings["project"]:
        role.compile_files(settings["project"], *([] if settings["namespaces"] else [settings["packages"]]))
    return role


def _open_scratch(folder: str) -> Scratch | None:
    """The scratch folder as the place for temporary files; None for none. What is imported next may ask for it."""
    if not folder:
        return None
    os.environ.update(dict.fromkeys(("TMPDIR", "HOME"), folder))
    return Scratch(folder)


def _import_compiled(names: list[str]) -> None:
    """Import compiled packages. A library that starts threads here would leave them out of every fork."""
    os.environ.update(_ONE_THREAD)
    for name in names:
        importlib.import_module(name)
    for name in _ONE_THREAD:
        del os.environ[name]


def _kill_job(child: int) -> tuple[int, float, int]:
    """Kill the job's processes; return the exit code of `child`, the CPU seconds of all, and the largest one's peak of
    resident memory in KiB.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    code, cpu_s, memory_kib = 0, 0.0, 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return code, cpu_s, memory_kib
        cpu_s += usage.ru_utime + usage.ru_stime
        memory_kib = max(memory_kib, usage.ru_maxrss)
        if pid == child:
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def _enforce_limits(child: int, limit_s: float, scratch: Scratch | None, control: socket.socket) -> None:
    """Wait for the supervisor's message; kill `child` once it has used `limit_s` of CPU by the exact clock, or has too
    many files in `scratch`.
    """
    remaining_s = limit_s
    while remaining_s > 0:
        # The child's threads may use every CPU at once.
        tick_s = max(_TICK_S, remaining_s / (os.cpu_count() or 1))
        if select.select([control], [], [], tick_s if scratch is None else min(tick_s, _COUNT_S))[0]:
            return
        if scratch is not None and scratch.has_too_many_files():
            break
        try:
            remaining_s = limit_s - read_cpu_s(child)
        except OSError:
            return
    os.kill(child, signal.SIGKILL)


def _work(
    role: Any, job: dict[str, Any], limits: list[tuple[int, int]], descriptors: list[int], parent: int,
    ruleset: int | None, filters: tuple[bytes, bytes],
) -> int:  # fmt: skip
    """Do a job in its own process; return the exit code."""
    kept = descriptors[1:] if ruleset is None else [*descriptors[1:], ruleset]
    hardening.place_descriptors(descriptors[0], kept)
    os.setpgid(0, 0)
    try:
        hardening.set_limits(limits)
        hardening.confine(parent, None if ruleset is None else 2 + len(kept), *filters)
    except (OSError, ValueError) as error:
        role.refuse(f"the process could not be confined: {error}")
        return 71
    role.serve(job)
    return 0
