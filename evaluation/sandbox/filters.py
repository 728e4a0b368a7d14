"""The seccomp filter of a forked process: built here with libseccomp, installed inside the sandbox as bytes.

It is an allow-list. Other system calls get EPERM, some ENOSYS, so that libraries fall back and programs see an
OSError.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from dataclasses import dataclass
from functools import cache
from typing import Literal

_ALLOWED = (
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2",
    "lseek", "close", "close_range", "dup", "dup2", "dup3", "fstat", "newfstatat", "stat", "lstat", "statx",
    "access", "faccessat", "faccessat2", "getdents", "getdents64", "getcwd", "chdir", "fchdir", "umask",
    "fsync", "fdatasync", "ftruncate", "fadvise64", "fallocate", "readahead", "copy_file_range", "sendfile",
    "brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "mincore", "msync", "mlock", "mlock2", "munlock",
    "membarrier", "futex", "futex_waitv", "futex_wake", "futex_wait", "set_robust_list", "set_tid_address",
    "rseq", "arch_prctl", "set_thread_area", "get_thread_area", "rt_sigaction", "rt_sigprocmask",
    "rt_sigpending", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "sigaltstack", "sigreturn",
    "restart_syscall", "pause", "alarm", "kill", "tgkill", "signalfd4", "nanosleep", "gettimeofday", "time",
    "times", "getitimer", "setitimer", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
    "timerfd_create", "timerfd_gettime", "timerfd_settime", "getpid", "getppid", "gettid", "getuid", "geteuid",
    "getgid", "getegid", "getgroups", "getresuid", "getresgid", "getpgrp", "getrlimit", "getrusage",
    "setrlimit", "getcpu", "sched_yield", "sched_get_priority_max", "sched_get_priority_min", "poll", "ppoll",
    "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "epoll_pwait2", "eventfd", "eventfd2", "pipe", "pipe2", "wait4", "waitid", "getrandom",
    "exit", "exit_group", "open", "openat",
)  # fmt: skip
_STARTING = ("execve", "readlink", "readlinkat")
"""For a process that becomes a program of another toolchain; the JVM finds its own files by realpath."""
_COMPILING = (
    *("fork", "vfork", "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir"),
    *("rename", "renameat", "renameat2", "chmod", "fchmod", "fchmodat", "fchmodat2"),
)
"""For a compiler: it starts its other parts, and writes in the folder of its job."""
_WRITING = (
    *("mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "truncate"),
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat"),
    *("link", "linkat", "symlink", "symlinkat", "readlink", "readlinkat", "listxattr", "llistxattr", "flistxattr"),
)
"""For the tests of a project, where namespaces leave one folder that can be written: without them, these calls reach
the user's own files, whatever Landlock says."""
_LOCKING = (fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW)
"""For the same: SQLite locks its file. The machine's own files are read-only there and can only get read locks, which
disturb nobody but their writers. flock gives exclusive locks on read-only files, too, and stays denied."""
_ABOUT_A_PROCESS = ("getpgid", "getsid", "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_getattr")
"""Allowed for the caller alone (pid 0): with other pids they reveal which processes exist."""
_ON_A_CLOCK = ("clock_gettime", "clock_getres", "clock_nanosleep", "timer_create")
_CLOCK_OF_A_PROCESS = 0xFFFFFFF0
"""Bits of a clock id that are clear for the machine's clocks; clocks of a process hold its pid there, inverted."""
_CPU_OF_THE_CALLER = 0xFFFFFFF8
_NEW_NAMESPACES = 0x7E020080
"""Every CLONE_NEW* bit, time included."""
_CLONE_THREAD = 0x10000
_PRCTL_OPTIONS = (3, 15, 16, 39, 0x53564D41)
"""Get dumpable, set and get name, get no_new_privs, name a mapping."""
_FCNTL_COMMANDS = (
    *(fcntl.F_DUPFD, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL),
    *(fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETPIPE_SZ),
)
"""No F_SETOWN and F_SETSIG: they make the kernel send any signal to any process of the same uid. No locks, and no flock
above: no file may be written here, and a lock on a file of the host would affect other programs."""
_IOCTL_REQUESTS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Terminal settings and size (isatty), bytes waiting, non-blocking, close-on-exec on and off."""
_SEND_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_RECEIVE_FLAGS = socket.MSG_DONTWAIT | socket.MSG_PEEK | socket.MSG_TRUNC | socket.MSG_WAITALL
"""Of a pair of Unix sockets, the only sockets that a process can have: none is inherited, and socket() is denied. No
MSG_OOB, whose rarely used code in the kernel had errors. No sendmsg and recvmsg either: they carry descriptors, and an
address that a filter cannot read."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter as bytes, the numbers of the system calls that send signals, and how many rules allow a call."""

    bpf: bytes
    kill_calls: tuple[int, ...]
    n_rules: int


@cache
def build_filter(kind: Literal["python", "program", "compiler", "writer"] = "python") -> Filter:
    """Return the filter for this machine.

    `kind` says what the confined process becomes: a program may be started, a compiler may start others, and a
    writer is Python that has a folder of its own to write in.

    Raises RuntimeError where pyseccomp or libseccomp is missing.
    """
    try:
        import pyseccomp  # noqa: PLC0415  (fails where there is no libseccomp)
    except (ImportError, OSError, RuntimeError) as error:
        raise RuntimeError(f"libseccomp cannot be used: {error}") from error
    policy = pyseccomp.SyscallFilter(pyseccomp.ERRNO(errno.EPERM))
    # Binary search over call numbers: at each installation the kernel runs the filter once per call number.
    policy.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
    n_rules = 0

    def allow(name: str, *conditions: object) -> None:
        nonlocal n_rules
        try:
            pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
            policy.add_rule(pyseccomp.ALLOW, name, *conditions)
            n_rules += 1
        except (OSError, ValueError, RuntimeError):
            return  # this architecture has no such call

    def build_equality(position: int, value: int) -> object:
        return pyseccomp.Arg(position, pyseccomp.EQ, value)

    more = {"python": (), "program": _STARTING, "compiler": (*_STARTING, *_COMPILING), "writer": _WRITING}[kind]
    for name in (*_ALLOWED, *more):
        allow(name)
    thread = 0 if kind == "compiler" else _CLONE_THREAD
    allow("clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, thread | _NEW_NAMESPACES, thread))
    # With another pid it would change the limits of that process, for instance the zygote's.
    allow("prlimit64", build_equality(0, 0))
    for name in _ABOUT_A_PROCESS:
        allow(name, build_equality(0, 0))
    allow("getpriority", build_equality(1, 0))
    for name in _ON_A_CLOCK:
        allow(name, pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _CLOCK_OF_A_PROCESS, 0))
        allow(name, pyseccomp.Arg(0, pyseccomp.MASKED_EQ, _CPU_OF_THE_CALLER, _CPU_OF_THE_CALLER))
    for option in _PRCTL_OPTIONS:
        allow("prctl", build_equality(0, option))
    for command in (*_FCNTL_COMMANDS, *(_LOCKING if kind == "writer" else ())):
        allow("fcntl", build_equality(1, command))
    for request in _IOCTL_REQUESTS:
        allow("ioctl", build_equality(1, request))

    def build_absence_of_other_flags(position: int, allowed: int) -> object:
        return pyseccomp.Arg(position, pyseccomp.MASKED_EQ, 0xFFFFFFFF & ~allowed, 0)

    allow("socketpair", build_equality(0, socket.AF_UNIX))
    # With an address, a datagram goes elsewhere than to the other end.
    allow("sendto", build_absence_of_other_flags(3, _SEND_FLAGS), build_equality(4, 0))
    allow("recvfrom", build_absence_of_other_flags(3, _RECEIVE_FLAGS))
    allow("shutdown")
    # Their flags are in memory, which a filter cannot read; ENOSYS makes libc fall back to clone and openat.
    for name in ("clone3", "openat2"):
        policy.add_rule(pyseccomp.ERRNO(errno.ENOSYS), name)
    # pthread_getattr_np, which the JVM needs, asks by the thread's id; only after ENOSYS does it do without an answer.
    policy.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "sched_getaffinity", pyseccomp.Arg(0, pyseccomp.NE, 0))
    arch = pyseccomp.system_arch()
    kill_calls = tuple(int(pyseccomp.resolve_syscall(arch, name)) for name in ("kill", "tgkill"))
    with os.fdopen(os.memfd_create("filter"), "w+b") as file:
        policy.export_bpf(file)
        file.seek(0)
        return Filter(file.read(), kill_calls, n_rules)
