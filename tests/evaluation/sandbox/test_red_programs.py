"""A second round of attacks: none escapes, none leaves anything for the next job, none outlives its limits."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluation.sandbox import Limits
from evaluation.sandbox.zygotes import MARK

RED = Path(__file__).parents[1] / "red"
with (RED / "ISOLATION.tsv").open(encoding="utf-8", newline="") as file:
    INDEX = list(csv.DictReader(file, delimiter="\t"))
ESCAPES, DENIALS = ([row for row in INDEX if row["kind"] == kind] for kind in ("escape", "denial"))
LIMITS = Limits()
SHORT = Limits(cpu_s=1, wall_s=1.5)
"""For programs that only a limit ends."""
ADD = json.loads((RED / "c01_fd0_flags.task.json").read_text())


def run(sandbox, name, limits=LIMITS):
    own = RED / f"{name}.task.json"
    task = SimpleNamespace(**(json.loads(own.read_text()) if own.exists() else ADD))
    program = (RED / f"{name}.py").read_bytes().decode("utf-8", "surrogatepass")
    return sandbox.judge(program, task, limits)


@pytest.mark.slow
@pytest.mark.parametrize("row", ESCAPES, ids=lambda row: row["program"])
def test_an_escape_succeeds_neither_at_first_nor_after_another_job(row, sandbox):
    """The second time it would find what the first left behind. One program is right where a tier leaves a gap open."""
    assert len(ESCAPES) >= 27
    statuses = {run(sandbox, row["program"]).status for _ in range(2)}
    assert statuses <= set(row[sandbox.tier_name].split("|"))


@pytest.mark.slow
@pytest.mark.parametrize("row", DENIALS, ids=lambda row: row["program"])
def test_a_denial_ends_inside_its_limits_and_the_next_job_is_unharmed(row, sandbox):
    allowed = row[sandbox.tier_name].split("|")
    limits = SHORT if "timeout" in allowed else LIMITS
    result = run(sandbox, row["program"], limits)
    assert result.status in allowed
    assert result.cpu_s < limits.cpu_s + 1
    honest = sandbox.judge("def add(a, b):\n    return a + b\n", SimpleNamespace(**ADD), LIMITS)
    assert honest.status == "passed"


def seen(sandbox, expression):
    """What a program sees there, as the text of the value."""
    program = f"import os, sys, time, ctypes, resource\ndef f():\n    return repr({expression})\n"
    task = SimpleNamespace(prompt="", entry_point="f", test="def check(c):\n    assert c() is None\n")
    return sandbox.judge(program, task, LIMITS).got or ""


def test_a_program_does_not_learn_where_it_runs(sandbox):
    assert "localhost" in seen(sandbox, "os.uname()")
    assert "localhost" in seen(sandbox, "__import__('socket').gethostname()"), "boltons asks for it when it is imported"
    assert MARK not in seen(sandbox, "(sys.argv, sys.orig_argv)")
    raw = "(lambda b: (ctypes.CDLL(None).uname(b), b.raw.strip(bytes(1))))(ctypes.create_string_buffer(1024))"
    assert seen(sandbox, raw) == repr("(-1, b'')")


def test_the_standard_library_can_be_imported_though_its_folder_cannot_be_listed_with_packages_in_it(sandbox):
    names = "xml.dom.minidom", "email.message", "sqlite3", "http.client", "zoneinfo", "platform", "uuid", "wave"
    for name in names:
        assert name in seen(sandbox, f"__import__({name!r}, fromlist=['x'])")


def test_times_of_its_own_can_be_asked_for_and_no_other_process_s(sandbox):
    own = "(time.process_time(), time.thread_time(), time.clock_gettime(0), time.clock_getres(1), time.sleep(0.001))"
    assert "None" in seen(sandbox, own)
    assert seen(sandbox, "(os.sched_getaffinity(0) != set(), os.getpriority(0, 0), os.getsid(0) > 0)").startswith(
        "'(True"
    )
    others = "[p for p in range(1, 400) if ctypes.CDLL(None).syscall(228, ctypes.c_int((~p << 3) | 2), b' ' * 16) == 0]"
    assert seen(sandbox, others) == "'[]'"
