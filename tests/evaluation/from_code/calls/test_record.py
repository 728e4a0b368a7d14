"""Recording: what a project's functions did while its tests ran, without changing what they do."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import psutil
import pytest

from evaluation.from_code.calls.commands import resolve_command
from evaluation.from_code.calls.record import record_calls
from evaluation.from_code.reasons import ProjectError
from evaluation.from_code.recording import calls as recorder
from evaluation.from_code.recording import values
from evaluation.from_code.source.find import find_functions

CART = '''
import warnings


def total(prices, tax=0.5, *more, currency="EUR", **options):
    """The sum with tax."""
    result = sum(prices) + sum(more)
    prices.append(result)
    if tax < 0:
        raise ValueError(tax)
    return [result * (1 + tax), currency, options]


def count(n):
    """Counts."""
    for i in range(n):
        yield i
    return None


def caller(name):
    """Warns its caller."""
    warnings.warn(name, stacklevel=2)
    return name
    ...


def nested(xs):
    """Has a function inside."""
    def twice(x):
        return 2 * x
    return [twice(x) for x in xs]
'''


def run(opened, tmp_path, test, limit_s=60, **files):
    project = opened(cart=CART, **files)
    (project.root / "run_tests.py").write_text("import cart\n" + test)
    command = [sys.executable, str(project.root / "run_tests.py")]
    return record_calls(project, find_functions(project), [command], tmp_path / "state", limit_s)


def by_name(recording):
    return {key.split(":")[1]: found for key, found in recording.calls.items()}


def as_given(call):
    return values.read(call.call)


FIX_ADDRESSES = "import ctypes; raise SystemExit(ctypes.CDLL(None).personality(0x0040000) == -1)"


def test_generators_of_the_tests_and_sets_with_none_give_the_same_calls_in_every_recording(opened, tmp_path):
    if subprocess.run([sys.executable, "-c", FIX_ADDRESSES], check=False).returncode:
        pytest.skip("this machine gives programs other addresses each time")
    project = opened(cart=CART)
    (project.root / "test_chance.py").write_text(
        "import random\nimport cart\nimport pytest\nOWN = random.Random()\n\n\n"
        "@pytest.mark.parametrize('n', [random.randrange(10**9) for _ in range(3)])\n"
        "def test_chance(n):\n    cart.nested([n, OWN.random()])\n\n\n"
        "def test_order():\n"
        "    parts = {(n, None) for n in range(30)}\n"
        "    cart.nested([n for n, _ in parts])\n"
    )
    command = [sys.executable, "-m", "pytest", "-q"]

    found = [
        by_name(record_calls(project, find_functions(project), [command], tmp_path / f"state {number}", 60))["nested"]
        for number in range(2)
    ]

    assert len(found[0]) == 4
    assert [call.call for call in found[0]] == [call.call for call in found[1]]


def test_arguments_are_those_before_the_call_and_changes_are_recorded(opened, tmp_path):
    recording = run(opened, tmp_path, "assert cart.total([1, 2]) == [4.5, 'EUR', {}]\n")
    (call,) = by_name(recording)["total"]
    assert as_given(call) == (([1, 2],), {})
    assert values.read(call.after) == (([1, 2, 3],), {})
    assert values.read(call.returned) == [4.5, "EUR", {}]
    assert recording.exit_code == 0


def test_arguments_keep_their_form_and_defaults_are_left_out(opened, tmp_path):
    test = "cart.total([1], 0.1, 5, 6, currency='USD', gift=True)\ncart.total(prices=[2], currency='CHF')\n"
    found = [as_given(call) for call in by_name(run(opened, tmp_path, test))["total"]]
    assert sorted(found, key=str) == [
        (([1], 0.1, 5, 6), {"currency": "USD", "gift": True}),
        (([2],), {"currency": "CHF"}),
    ]


def test_exceptions_are_recorded_by_type_and_still_raised(opened, tmp_path):
    test = (
        "try:\n    cart.total([1], -1)\nexcept ValueError as error:\n    assert error.args == (-1,)\nelse:\n    1 / 0\n"
    )
    recording = run(opened, tmp_path, test)
    (call,) = by_name(recording)["total"]
    assert call.raised[:2] == ("ValueError", "Exception")
    assert recording.exit_code == 0


def test_functions_see_the_same_frames_names_and_generators_as_without_the_recorder(opened, tmp_path):
    test = """
import inspect, types, warnings
assert type(cart.total) is types.FunctionType and cart.total.__qualname__ == "total"
assert inspect.getsource(cart.total).startswith("def total(prices, tax=0.5")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    cart.caller("x")
assert caught[0].filename == __file__, caught[0].filename
g = cart.count(3)
assert type(g) is types.GeneratorType and next(g) == 0 and list(g) == [1, 2]
assert cart.nested([1, 2]) == [2, 4]
"""
    recording = run(opened, tmp_path, test)
    assert recording.exit_code == 0, recording.output
    found = by_name(recording)
    assert [values.read(call.returned) for call in found["nested"]] == [[2, 4]]
    assert [call.iterator for call in found["count"]] == ["generator"]


def test_results_that_are_not_plain_data_are_named(opened, tmp_path):
    recording = run(
        opened, tmp_path, "import odd\nodd.make(1)\n", odd='def make(x):\n    """."""\n    y = x\n    return object()\n'
    )
    assert recording.refused == {"odd.py:make:1": ["object"]}


def test_changed_arguments_that_are_too_large_are_no_refused_result_and_take_no_place(opened, tmp_path):
    test = """
import odd
for number in range(300):
    odd.fill([number], 1000)
for number in range(6):
    odd.fill([number], 1)
"""
    fill = 'def fill(numbers, n):\n    """."""\n    y = n\n    numbers.extend(range(n))\n'
    recording = run(opened, tmp_path, test, odd=fill)
    assert recording.refused == {}
    assert sorted(as_given(call)[0] for call in by_name(recording)["fill"]) == [([n], 1) for n in range(6)]


def test_which_calls_are_kept_does_not_depend_on_their_order(opened, tmp_path):
    test = "for i in {}:\n    cart.nested([i])\n"
    up = run(opened, tmp_path, test.format("range(1000)"))
    down = run(opened, tmp_path, test.format("range(999, -1, -1)"))
    assert by_name(up)["nested"] == by_name(down)["nested"]
    assert recorder.MAX_CALLS <= len(by_name(up)["nested"]) <= recorder.MAX_CALLS + 2 * recorder.MAX_CALLS_OF_A_KIND


def test_calls_that_name_a_folder_of_this_machine_are_dropped(opened, tmp_path):
    test = (
        "import os, tempfile, echo\n"
        "local = (__file__, os.getcwd(), tempfile.gettempdir() + '/x', os.path.expanduser('~/x'))\n"
        "for path in (*local, '/srv/x'):\n    echo.echo(path)\n    echo.echo([{'path': path}])\n"
    )
    source = "def echo(path):\n    'Echoes.'\n    x = path\n    return x\n"
    recording = run(opened, tmp_path, test, echo=source)
    assert recording.exit_code == 0, recording.output
    found = [as_given(call)[0][0] for call in by_name(recording)["echo"]]
    assert sorted(found, key=str) == ["/srv/x", [{"path": "/srv/x"}]]


def test_tests_that_draw_their_inputs_draw_the_same_ones_in_every_recording(opened, tmp_path):
    test = "import random\nfor _ in range(30):\n    cart.nested([random.random()])\n"
    # The tests run twice in a recording, which keeps the calls of both.
    assert len(by_name(run(opened, tmp_path, test))["nested"]) >= 25


@pytest.mark.thorough
def test_tests_with_hypothesis_draw_the_same_inputs_in_every_recording(opened, tmp_path):
    project = opened(cart=CART)
    (project.root / "test_drawn.py").write_text(
        textwrap.dedent("""
        from hypothesis import given, settings, strategies as st
        import cart

        @settings(max_examples=30)
        @given(st.lists(st.integers()))
        def test_total(prices):
            cart.total(prices)

        @settings(max_examples=30)
        @given(st.text())
        def test_caller(name):
            cart.caller(name)
    """)
    )
    command = [sys.executable, "-m", "pytest", "-q"]
    recording = record_calls(project, find_functions(project), [command], tmp_path / "state", 60)
    assert min(len(by_name(recording)[name]) for name in ("total", "caller")) >= 20


def test_calls_that_do_not_repeat_are_dropped_and_cost_none_of_those_that_do(opened, tmp_path):
    test = "import time, uuid\nfor i in range(200):\n    cart.nested([time.time_ns()])\n    cart.nested([i])\n"
    first = by_name(run(opened, tmp_path, test + "cart.nested([0, uuid.uuid4().int])\n"))["nested"]
    assert max(as_given(call)[0][0][0] for call in first) < 200
    assert len(first) >= recorder.MAX_CALLS
    assert first == by_name(run(opened, tmp_path, test))["nested"]


def test_calls_in_forked_processes_and_threads_are_recorded(opened, tmp_path):
    test = """
import os, subprocess, sys, threading
cart.nested([0])
pid = os.fork()
if pid == 0:
    cart.nested([1])
    os._exit(0)
os.waitpid(pid, 0)
thread = threading.Thread(target=cart.nested, args=([2],))
thread.start(); thread.join()
subprocess.run([sys.executable, "-c", "import cart; cart.nested([3])"], check=True)
"""
    found = by_name(run(opened, tmp_path, test))["nested"]
    assert sorted(as_given(call)[0][0] for call in found) == [[0], [1], [2], [3]]


def test_tests_that_hang_are_ended_with_what_they_started_and_their_calls_count(opened, tmp_path):
    pids = tmp_path / "pids"
    test = f"""
import os, subprocess, sys, time
cart.nested([1])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""
    recording = run(opened, tmp_path, test, limit_s=4)
    assert recording.exit_code is None
    assert len(by_name(recording)["nested"]) == 1
    for pid in map(int, pids.read_text().split()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_daemons_that_left_the_session_of_the_tests_are_ended(opened, tmp_path):
    pid = tmp_path / "pid"
    test = f"""
import os, subprocess, sys
code = "import os, time; open({str(pid)!r} + '.new', 'w').write(str(os.getpid())); " \\
    "os.rename({str(pid)!r} + '.new', {str(pid)!r}); time.sleep(600)"
subprocess.Popen(["sh", "-c", 'setsid "$0" -c "$1" &', sys.executable, code], env={{}}, stdout=-3, stderr=-3).wait()
while not os.path.exists({str(pid)!r}):
    pass
cart.nested([1])
"""
    recording = run(opened, tmp_path, test)
    assert recording.exit_code == 0, recording.output
    assert not psutil.pid_exists(int(pid.read_text()))


def test_processes_that_were_there_before_the_tests_stay(opened, tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        run(opened, tmp_path, "cart.nested([1])\n")
        assert other.poll() is None
    finally:
        other.communicate(b"\n")
    assert other.returncode == 0


SPOILED = r"""
import json, os
cart.nested([1])
folder = json.load(open(os.environ["BASSLINE_RECORDING"]))["folder"]
(name,) = os.listdir(folder)
good = json.loads(open(os.path.join(folder, name)).read())
os.mkfifo(os.path.join(folder, "calls-0-fifo.jsonl"))
os.symlink("/etc/passwd", os.path.join(folder, "calls-0-link.jsonl"))
os.mkdir(os.path.join(folder, "calls-0-folder.jsonl"))
spoiled = [
    7, [1], None, "x", {}, {"function": 3}, {"function": "other"}, {**good, "call": 5}, {**good, "call": "[]"},
    {**good, "call": "{"}, {**good, "shape": None}, {**good, "raised": [1]}, {**good, "raised": 5},
    {**good, "returned": "[1 ]"}, {**good, "after": 3.5}, {**good, "refused": 3, "call": None},
    {**good, "call": '{"tuple":[1,{"dict":[]}]}'},
]
with open(os.path.join(folder, "calls-0-lines.jsonl"), "wb") as file:
    for row in spoiled:
        file.write(json.dumps(row).encode() + b"\n")
    file.write(b"\xff\xfe\n" + b"[" * 10**5 + b"\n" + b"no json\n" + b'{"function": "cut o')
"""


def test_what_the_recorder_did_not_write_is_counted_and_named(opened, tmp_path):
    recording = run(opened, tmp_path, SPOILED)
    assert recording.exit_code == 0, recording.output
    assert [as_given(call) for call in by_name(recording)["nested"]] == [(([1],), {})]
    no_file = "is not a regular file, or larger than the recorder writes"
    assert recording.unread == {
        "calls-0-fifo.jsonl": no_file,
        "calls-0-folder.jsonl": no_file,
        "calls-0-link.jsonl": no_file,
        "calls-0-lines.jsonl": "has 20 lines that the recorder did not write",
    }


@pytest.mark.parametrize(
    ("command", "resolved"),
    [
        ("python -m pytest", ["/venv/bin/python", "-m", "pytest"]),
        ("python3 tests.py", ["/venv/bin/python", "tests.py"]),
        ("pytest -q", ["/venv/bin/python", "-m", "pytest", "-q"]),
        ("make test", ["make", "test"]),
        ("/other/python tests.py", ["/other/python", "tests.py"]),
    ],
)
def test_a_command_that_begins_with_python_or_pytest_means_the_projects_interpreter(command, resolved):
    assert resolve_command(command.split(), "/venv/bin/python") == resolved


def test_the_programs_beside_the_projects_interpreter_come_first_on_path(opened, tmp_path):
    project = opened(cart=CART)
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    script = folder / "check"
    script.write_text("#!/bin/sh\nexec python -c 'import cart; cart.nested([1])'\n")
    script.chmod(0o755)
    python = str(folder / "python")
    recording = record_calls(project, find_functions(project), [["check"]], tmp_path / "state", 60, python=python)
    assert "nested" in by_name(recording), recording.output


@pytest.mark.parametrize(
    ("test", "failure"),
    [
        ("import os\nos.abort()\n", "were killed by SIGABRT"),
        ("print('a')\nprint('b')\nraise SystemExit(4)\n", "ended with exit code 4"),
        ("", ""),
    ],
)
def test_how_the_tests_failed_is_told(opened, tmp_path, test, failure):
    assert run(opened, tmp_path, "cart.nested([1])\n" + test).failure == failure


def test_the_output_is_that_of_the_command_that_failed(opened, tmp_path):
    project = opened(cart=CART)
    commands = [[sys.executable, "-c", f"print({n})\nraise SystemExit({n})"] for n in (0, 3, 0)]
    recording = record_calls(project, find_functions(project), commands, tmp_path / "state", 60)
    assert (recording.exit_code, recording.last_lines) == (3, ["3"])


def test_megabytes_of_output_are_read_and_only_their_end_is_kept(opened, tmp_path):
    recording = run(opened, tmp_path, "print(('y' * 60 + '\\n') * 200000)\nprint('the end')\n")
    assert recording.last_lines[-1] == "the end"
    assert len(recording.output) < 20_000


def test_a_failing_test_leaves_what_was_recorded_before(opened, tmp_path):
    recording = run(opened, tmp_path, "cart.nested([1])\nraise SystemExit('one test failed')\n")
    assert recording.exit_code == 1
    assert recording.last_lines == ["one test failed"]
    assert len(by_name(recording)["nested"]) == 1


def test_the_project_folder_gets_no_file(opened, tmp_path):
    run(opened, tmp_path, "cart.nested([1])\n")
    assert sorted(path.name for path in (tmp_path / "shop").rglob("*")) == ["cart.py", "run_tests.py"]


def test_the_environments_own_sitecustomize_still_runs(opened, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.own_ran = True\n")
    monkeypatch.setenv("PYTHONPATH", str(own))
    recording = run(opened, tmp_path, "assert own_ran\ncart.nested([1])\n")
    assert recording.exit_code == 0, recording.output


def test_a_command_that_does_not_exist_is_one_sentence_with_the_remedy(opened, tmp_path):
    project = opened(cart=CART)
    with pytest.raises(ProjectError, match=r"cannot be started: no-such-python: .* --tests"):
        record_calls(project, find_functions(project), [["no-such-python", "-m", "pytest"]], tmp_path / "state", 5)


@pytest.mark.thorough
def test_a_test_that_waits_forever_is_ended_and_named_and_the_others_run(opened, tmp_path):
    tests = """
import os, threading, time
import cart

def test_waits():
    cart.nested([1])
    threading.Event().wait()

def test_works():
    until = time.process_time() + 1.2
    while time.process_time() < until:
        pass
    cart.nested([2])

def test_starts_a_program_without_the_plugin():
    assert "PYTEST_PLUGINS" not in os.environ
    cart.nested([3])
"""
    project = opened({"test_cart.py": tests}, cart=CART)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    recording = record_calls(project, find_functions(project), [command], tmp_path / "state", 60, quiet_s=0.5)
    assert recording.covering.ended == ["test_cart.py::test_waits"]
    assert "1 failed, 2 passed" in recording.output
    assert sorted(values.read(call.returned) for call in by_name(recording)["nested"]) == [[2], [4], [6]]


def test_finalizers_that_run_after_python_restored_its_builtins_call_functions_as_before(opened, tmp_path):
    held = """
    import cart
    class Held:
        def __del__(self, write=print, caller=cart.nested):
            write("ended with", caller([1]))
    held = Held()
    held.circle = held
    """
    project = opened(cart=CART)
    (project.root / "run_tests.py").write_text(textwrap.dedent(held))
    command = [sys.executable, "-c", "import subprocess, sys\nsys.exit('ended with [2]' not in subprocess.run("
               "[sys.executable, 'run_tests.py'], capture_output=True, text=True).stdout)"]  # fmt: skip
    recording = record_calls(project, find_functions(project), [command], tmp_path / "state", 60)
    assert recording.exit_code == 0


def test_a_function_whose_later_calls_count_no_more_runs_no_code_of_the_recorder(opened, tmp_path):
    test = f"""
import sys
for number in range({recorder.MAX_EXAMINED} + 2):
    cart.nested([])
called = []
sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
cart.nested([])
sys.setprofile(None)
assert "nested" in called and set(called) <= {{"nested", "<listcomp>"}}, called
"""
    assert run(opened, tmp_path, test).exit_code == 0


def test_every_call_counts_for_the_test_that_makes_it(opened, tmp_path):
    tests = """
import cart

def test_many():
    for number in range(3000):
        cart.nested([number])

def test_few():
    cart.nested([])
    list(cart.count(1)), list(cart.count(2))
"""
    project = opened({"test_cart.py": tests}, cart=CART)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    covering = record_calls(project, find_functions(project), [command], tmp_path / "state", 60).covering
    counts = {test: {key.split(":")[1]: n for key, n in calls.items()} for test, calls in covering.tests.items()}
    assert counts == {
        "test_cart.py::test_many": {"nested": 3000},
        "test_cart.py::test_few": {"nested": 1, "count": 2},
    }


def test_too_large_arguments_do_not_keep_later_calls_from_being_recorded(opened, tmp_path):
    test = """
for number in range(60):
    cart.nested([[number]] * 2 + [[n] for n in range(500)])
for number in range(200):
    cart.nested([number])
"""
    calls = by_name(run(opened, tmp_path, test))["nested"]
    assert len(calls) > 50
