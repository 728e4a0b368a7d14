"""Confines a process before it runs untrusted code: descriptors, limits, Landlock, seccomp.

Limits, Landlock and the filters are irrevocable and inherited. The main filter comes last, since it forbids most of
the other steps. A step that fails raises OSError, and the process then sends no hello.
"""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import errno
import fcntl
import importlib
import os
import posix
import resource
import signal
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
_SECCOMP_MODE_FILTER = 2
_LANDLOCK_CREATE, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_REMOVE, _MAKE_DIR, _MAKE_FILE, _MAKE_LINK, _REFER = 0b11 << 4, 1 << 7, 1 << 8, 1 << 12, 1 << 13
_WORK_IN = _EXECUTE | _WRITE_FILE | _READ_FILE | _READ_DIR | _REMOVE | _MAKE_DIR | _MAKE_FILE | _REFER | _TRUNCATE
"""What a compiler may do in the folder of its job: no links, no devices, no sockets."""
_FS_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # ABI 5 and later: 16
_NET_RIGHTS = 0b11  # bind and connect TCP, ABI 4
_SCOPES = 0b11  # abstract unix sockets and signals, ABI 6
_NO_PID = 0xFFFFFFFF


def _check(result: int, step: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")
    return result


def _prctl(step: str, option: int, first: int, second: int = 0) -> None:
    _check(_libc.prctl(option, first, second, 0, 0), step)


def guard_zygote() -> None:
    """Make this process die with its parent, and keep processes of the same uid from tracing it."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, int(signal.SIGKILL))
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Make this process the parent of processes whose own parent ends, so that it can wait for them."""
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def get_landlock_abi() -> int:
    """Return the kernel's Landlock ABI, 0 where there is none."""
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def create_landlock_ruleset(abi: int, settings: dict[str, Any]) -> int:
    """Return the descriptor of a ruleset: `trees` without `hidden` can be read, /dev/null and /dev/urandom used.

    In `scratch` files, folders, links can be made. Where the zygote starts programs, files in `trees` and `folder`
    can be executed; a compiler may write in `folder`.
    Network and scope rights are denied as far as the ABI has them; seccomp denies them in any case.
    """
    rights = (1 << _FS_RIGHTS_BY_ABI.get(abi, 16)) - 1
    attributes = struct.pack("=QQQ", rights, _NET_RIGHTS, _SCOPES)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = _check(
        _libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)),
        "landlock_create_ruleset",
    )
    execute = _EXECUTE if settings["folder"] else 0
    for path, allowed in _build_rules(settings["trees"], settings["hidden"]):
        _add_rule(ruleset, path, (allowed | execute) & rights)
    if settings["folder"]:
        work = _WORK_IN if settings["writable"] else _EXECUTE | _READ_FILE | _READ_DIR
        _add_rule(ruleset, settings["folder"], work & rights)
    if settings["scratch"]:
        _add_rule(ruleset, settings["scratch"], (_WORK_IN & ~_EXECUTE | _MAKE_LINK) & rights)
    _add_rule(ruleset, "/dev/null", (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
    _add_rule(ruleset, "/dev/urandom", _READ_FILE)
    return ruleset


def _build_rules(trees: Sequence[str], hidden: Sequence[str]) -> list[tuple[str, int]]:
    rules: list[tuple[str, int]] = []
    for tree in trees:
        if tree in hidden:
            continue
        if Path(tree).is_dir() and any(path.startswith(tree.rstrip("/") + "/") for path in hidden):
            # Landlock cannot exclude a folder from a tree, so its siblings are allowed one by one. Their parent cannot
            # be listed then; `importlib` uses the listing that it cached before (see `cache_import_folders`).
            rules.extend(_build_rules([str(entry) for entry in Path(tree).iterdir()], hidden))
        elif Path(tree).is_dir():
            rules.append((tree, _READ_FILE | _READ_DIR))
        else:
            rules.append((tree, _READ_FILE))
    return rules


def _add_rule(ruleset: int, path: str, allowed: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = struct.pack("=Qi", allowed, descriptor)
        _check(_libc.syscall(_LANDLOCK_ADD_RULE, ruleset, 1, rule, ctypes.c_uint(0)), "landlock_add_rule")
    finally:
        os.close(descriptor)


def cache_import_folders() -> None:
    """Let importlib list the folders on sys.path now; it caches the lists while their modification times stay."""
    with contextlib.suppress(ImportError):
        importlib.import_module("no_such_module_in_any_folder")


def hide_machine() -> None:
    """Make os.uname return the system's name and the machine's architecture only, and socket.gethostname "localhost";
    the filter denies the call that returns host and kernel."""
    neutral = (os.uname().sysname, "localhost", "", "", os.uname().machine)
    facts = os.uname_result(neutral)
    posix.uname = os.uname = lambda: facts
    _socket.gethostname = socket.gethostname = lambda: facts.nodename


def place_descriptors(output: int, rest: Sequence[int]) -> None:
    """Put an empty input on 0, `output` on 1 and 2, `rest` on 3, 4, ...; close all others.

    Each process opens the input itself: flags and locks of a shared open file would outlive the process.
    """
    nothing = os.open(os.devnull, os.O_RDONLY)
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100) for descriptor in (nothing, output, output, *rest)]
    for target, source in enumerate(high):
        os.dup2(source, target)
    os.closerange(len(high), 4096)


def resolve_limits(limits: dict[str, int]) -> list[tuple[int, int]]:
    """Return (resource, value) for limits by name (`AS`, `CPU`, ...), none above the current hard limit."""
    resolved = []
    for name, value in limits.items():
        number = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(number)[1]
        resolved.append((number, value if hard == resource.RLIM_INFINITY else min(value, hard)))
    return resolved


def set_limits(limits: Sequence[tuple[int, int]]) -> None:
    """Set soft and hard limits, so that they cannot be raised again."""
    for number, value in limits:
        resource.setrlimit(number, (value, value))


def build_own_pid_filter(kill_calls: Sequence[int]) -> bytes:
    """Return a filter that lets a process signal only itself; `confine` fills in the pid."""
    # load nr; for each call: equal -> compare argument 0 (low half) with our pid; else allow
    load, jump, answer = 0x20, 0x15, 0x06
    allow, deny = 0x7FFF0000, 0x00050000 | errno.EPERM
    program = [(load, 0, 0, 0)]
    for position, number in enumerate(kill_calls):
        program.append((jump, len(kill_calls) - position, 0, number))
    program += [(answer, 0, 0, allow), (load, 0, 0, 16), (jump, 0, 1, _NO_PID)]
    program += [(answer, 0, 0, allow), (answer, 0, 0, deny)]
    return b"".join(struct.pack("=HBBI", *step) for step in program)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def _install(bpf: bytes, step: str) -> None:
    program = _Program(len(bpf) // 8, bpf)
    _prctl(step, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))


def confine(parent: int, ruleset: int | None, pid_filter: bytes, main_filter: bytes) -> None:
    """Give up permanently every right that a program under test does not need; die with `parent`.

    `pid_filter` comes from `build_own_pid_filter`; its pid is filled in here. Raises OSError if a step fails.
    """
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "the zygote has ended")
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, 0)
    if ruleset is not None:
        _check(_libc.syscall(_LANDLOCK_RESTRICT, ruleset, ctypes.c_uint(0)), "landlock_restrict_self")
        os.close(ruleset)
    own = pid_filter.replace(struct.pack("=I", _NO_PID), struct.pack("=I", os.getpid()))
    _install(own, "seccomp filter of own signals")
    _install(main_filter, "seccomp filter")
