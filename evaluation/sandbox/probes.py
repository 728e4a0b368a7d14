"""The built-in probes: attacks that one program tries and reports.

They run like any program, with ordinary limits. A tier is accepted only if all of them are blocked. Without a sandbox
nearly all succeed, which a test checks.
"""

from __future__ import annotations

import ast
import os

from evaluation.sandbox.jobs import SandboxJob, SandboxResult
from evaluation.sandbox.limits import Limits
from evaluation.verdicts import Status

LIMITS = Limits(cpu_s=3, wall_s=10.0)

PROGRAM = """
import ctypes, os, signal, socket, sys, time

libc = ctypes.CDLL(None, use_errno=True)

def read_host_file():
    return bool(open("/etc/passwd").read())

def list_processes():
    return any(name.isdigit() for name in os.listdir("/proc"))

def list_root():
    return not set(os.listdir("/")) <= ROOT_NAMES

def write_tmp():
    open("/tmp/bassline_probe", "w").close()
    os.unlink("/tmp/bassline_probe")
    return True

def write_shared_memory():
    open("/dev/shm/bassline_probe", "w").close()
    os.unlink("/dev/shm/bassline_probe")
    return True

def write_import_path():
    for folder in sys.path:
        path = os.path.join(folder, "bassline_probe")
        try:
            open(path, "w").close()
        except OSError:
            continue
        os.unlink(path)
        return True
    return False

def change_file_mode():
    os.chmod("/tmp", 0o1777)
    return True

def open_internet_socket():
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    return True

def open_unix_socket():
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
    return True

def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True

def execute():
    os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(3)"])

def signal_parent():
    os.kill(os.getppid(), 0)
    return True

def signal_group():
    os.kill(0, 0)
    return True

def aim_signal():
    import fcntl
    ends = os.pipe()
    fcntl.fcntl(ends[0], fcntl.F_SETOWN, os.getppid())
    return True

def read_parent_limits():
    import resource
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)
    return True

def create_user_namespace():
    return libc.unshare(0x10000000) == 0

def trace():
    return libc.ptrace(0, 0, None, None) == 0

def create_memory_file():
    os.close(os.memfd_create("probe"))
    return True

def allocate():
    libc.calloc.restype = ctypes.c_void_p  # where it succeeds, the pages are not touched
    return libc.calloc(ctypes.c_size_t(1), ctypes.c_size_t(2 * 1024 ** 3)) is not None

def be_root():
    return 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid())

def keep_groups():
    return bool(set(os.getgroups()) - {os.getgid(), 65534})

def gain_privileges():
    return libc.prctl(39, 0, 0, 0, 0) != 1

def inherit_environment():
    return bool(set(os.environ) - {"PYTHONHASHSEED", "LC_CTYPE", "PWD"})

def see_other_process():
    others = [os.getppid(), 1]
    seen = [lambda p: os.sched_getaffinity(p), lambda p: os.getpgid(p), lambda p: os.getsid(p),
            lambda p: os.getpriority(os.PRIO_PROCESS, p), lambda p: time.clock_gettime((~p << 3) | 2)]
    for look in seen:
        for other in others:
            try:
                look(other)
                return True
            except OSError:
                pass
    return False

def lock_host_file():
    import fcntl
    with open(os.__file__) as file:
        for lock in (lambda: fcntl.flock(file, fcntl.LOCK_SH), lambda: fcntl.lockf(file, fcntl.LOCK_SH)):
            try:
                lock()
                return True
            except OSError:
                pass
    return False

def measure_machine():
    if libc.uname(ctypes.create_string_buffer(1024)) == 0 or libc.sysinfo(ctypes.create_string_buffer(1024)) == 0:
        return True
    return os.statvfs("/").f_blocks > 0

def follow_link():
    return bool(os.readlink("/proc/self/exe"))

def list_packages():
    folder = os.path.dirname(os.__file__)
    above = os.path.dirname(folder)
    for name in ("site-packages", "dist-packages", "../python3/dist-packages", "python3/dist-packages"):
        for start in (folder, above):
            try:
                if os.listdir(os.path.join(start, name)):
                    return True
            except OSError:
                pass
    return False

PROBES = [read_host_file, list_processes, list_root, write_tmp, write_shared_memory, write_import_path,
          change_file_mode, open_internet_socket, open_unix_socket, fork, execute, signal_parent, signal_group,
          aim_signal, read_parent_limits, create_user_namespace, trace, create_memory_file, allocate, be_root,
          keep_groups, gain_privileges, inherit_environment, see_other_process, lock_host_file,
          measure_machine, follow_link, list_packages]

def probe(names, root_names):
    global ROOT_NAMES
    ROOT_NAMES = set(root_names)
    succeeded = []
    for attack in PROBES:
        if attack.__name__ in names:
            try:
                if attack():
                    succeeded.append(attack.__name__)
            except (OSError, MemoryError, AttributeError):
                pass
    return succeeded
"""

NAMES: tuple[str, ...] = tuple(
    node.name for node in ast.parse(PROGRAM).body if isinstance(node, ast.FunctionDef) and node.name != "probe"
)
"""Every probe, in the order of the program."""


def list_applicable() -> list[str]:
    """Return the probes that apply here: an ordinary user cannot give up its supplementary groups."""
    return [name for name in NAMES if name != "keep_groups" or os.geteuid() == 0]


def build_probe_job(names: list[str], root_names: list[str]) -> SandboxJob:
    """Return the job that passes only if the named probes are blocked; `list_root` counts as blocked if / lists at most
    `root_names`."""
    test = f"def check(candidate):\n    assert candidate({names!r}, {root_names!r}) == []\n"
    return SandboxJob(PROGRAM, "probe", "", test)


def list_failures(result: SandboxResult) -> list[str]:
    """Return the names of the probes that succeeded, or the failure of the job; empty if all were blocked."""
    if result.status == Status.PASSED:
        return []
    if result.got is not None:
        return [str(name) for name in ast.literal_eval(result.got)]
    return [f"{result.status}: {result.detail}"]
