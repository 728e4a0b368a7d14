"""From a project to its dataset: what is kept, what is left out and why, and that the result repeats."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import pytest

from evaluation.dataset_files import loads
from evaluation.from_code import build
from evaluation.from_code.build import Options
from evaluation.from_code.reasons import ProjectError, SandboxFaultError
from evaluation.from_code.run import run, state_of
from evaluation.from_code.state import State
from evaluation.grading import Grader
from evaluation.prompting import build as prompt_of_task
from evaluation.sandbox import Result, Sandbox, stage
from tests.evaluation.from_code.conftest import opener_in

SHOP = '''
import random
import socket
import time

RATE = 0.19
_seen = 0


class NoPrice(ValueError):
    """No price."""


def gross(net, rate=RATE):
    """The price with tax, rounded to cents."""
    if net < 0:
        raise NoPrice(net)
    if net == 0:
        return 0.0
    return round(net * (1 + rate), 2)


def gross_again(price, tax=RATE):
    """The same as gross."""
    if price < 0:
        raise NoPrice(price)
    if price == 0:
        return 0.0
    return round(price * (1 + tax), 2)


def pairs(items):
    """Neighbours, as a generator."""
    previous = None
    for item in items:
        if previous is not None:
            yield previous, item
        previous = item


def lottery(n):
    """Draws numbers."""
    numbers = [random.random() for _ in range(n)]
    numbers.sort()
    return numbers


def now(n):
    """The time, in seconds."""
    seconds = time.time()
    seconds += n
    return seconds


def counted(n):
    """Counts its calls."""
    global _seen
    _seen += 1
    return _seen + n


def saved(n):
    """Writes a file."""
    with open("saved.txt", "w") as file:
        file.write(str(n))
    return n + 1


def connected(n):
    """Uses the network."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
    return n + 1


def loud(n):
    """Prints a megabyte."""
    line = "x" * 2**20
    print(line)
    return n + 1


def constant(n):
    """Always the same."""
    m = n * 2
    m = m + 1
    return [1, 2, 3]
'''
TESTS = """
import shop
for i in range(-3, 30):
    for function in (shop.gross, shop.gross_again):
        try:
            function(i / 4)
        except shop.NoPrice:
            pass
    shop.lottery(i % 4 + 1)
    shop.now(i)
    shop.counted(i)
    shop.constant(i)
    shop.saved(i)
    shop.connected(i)
    shop.loud(i)
    list(shop.pairs(list(range(i % 7))))
"""


class Quiet:
    def recording(self, command, seconds):
        pass

    def generating(self, done, total):
        pass

    def checking(self, done, total, made):
        pass


def made(opened, sandbox, state, tests=TESTS, options=Options(limit_s=60.0), **modules):  # noqa: B008
    project = opened({"run_tests.py": tests}, **(modules or {"shop": SHOP}))
    (project.root / "run_tests.py").rename(project.root / "test_run.py")
    command = [sys.executable, str(project.root / "test_run.py")]
    return run(sandbox, project, [command], State(state), options, Quiet())


@pytest.fixture(scope="module")
def finished(sandbox, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    return made(opener_in(folder), sandbox, folder / "state")


def test_what_repeats_is_kept_and_the_rest_has_its_reason(finished):
    assert [row["entry_point"] for row in finished.result.completion] == ["gross", "pairs"]
    reasons = {each.key.split(":")[1]: each.reason for each in finished.result.made if each.row is None}
    assert reasons == {
        "gross_again": "has the same body as another function",
        "lottery": "gives other results when it is called again",
        "now": "gives other results when it is called again",
        "counted": "does not repeat in the sandbox what it did in its tests",
        "saved": "does not repeat in the sandbox what it did in its tests",
        "connected": "does not repeat in the sandbox what it did in its tests",
        "loud": "cannot do in the sandbox what it did in its tests",
        "constant": "does the same in every call, so that its test could not tell it from a constant",
    }


def test_each_task_says_where_it_comes_from_and_how_strong_its_test_is(finished):
    source = finished.result.completion[0]["source"]
    assert (source["file"], source["line"]) == ("shop.py", 14)
    assert 3 <= source["recorded_cases"] <= source["cases"] <= 40
    assert source["mutants"] >= 10
    assert source["mutation_score"] == round(source["killed"] / source["mutants"], 4)
    assert source["weak"] == (source["mutation_score"] < 0.8)


def test_both_forms_load_and_their_own_solutions_pass_by_proxy(finished, sandbox):
    grader = Grader(sandbox)
    for content in (finished.completion_file(), finished.infilling_file()):
        for task in loads(content, "mine", "mine.jsonl").tasks:
            verdict = grader.judge(task.program(task.canonical_solution), task)
            assert (verdict.status, verdict.trust) == ("passed", "proxy"), verdict
            assert not grader.judge(task.program("    return None\n"), task).passed


def test_the_infilling_form_shows_the_file_and_judges_a_program_that_runs(opened, sandbox, tmp_path):
    options = Options(before=4, after=3, limit_s=60.0)
    finished = made(opened, sandbox, tmp_path / "state", options=options)
    task = loads(finished.infilling_file(), "mine", "mine.jsonl").tasks[0]
    assert task.prompt == '\n\ndef gross(net, rate=RATE):\n    """The price with tax, rounded to cents."""\n'
    assert task.suffix == "\n\ndef gross_again(price, tax=RATE):\n"
    assert task.program_prefix.startswith("RATE = 0.19\n\n\nclass NoPrice(ValueError):")
    prompt = prompt_of_task(task, "infill", ("<PRE>", "<SUF>", "<MID>"))
    assert prompt.text == f"<PRE>{task.prompt}<SUF>{task.suffix}<MID>"
    assert {"\nd", "\n@"} < set(prompt.stop), "a sample ends at the first unindented line"


def test_an_infilled_answer_may_use_the_imports_of_its_file_where_they_leave_the_test_outside(finished):
    tasks = {task.entry_point: task for task in loads(finished.infilling_file(), "mine", "mine.jsonl").tasks}
    assert tasks["pairs"].program_prefix.startswith("import random\nimport socket\nimport time\n")
    # Its test names the exception of the prompt, and so would load the prompt with socket outside the sandbox's guest.
    assert "socket" not in tasks["gross"].program_prefix


def test_the_same_source_gives_the_same_bytes_and_no_path_of_this_machine_is_in_them(
    finished, opened, sandbox, tmp_path
):
    again = made(opened, sandbox, tmp_path / "other")
    assert again.completion_file() == finished.completion_file()
    assert again.infilling_file() == finished.infilling_file()
    assert str(tmp_path).encode() not in finished.completion_file() + finished.infilling_file()


def test_a_run_that_was_killed_goes_on_and_gives_the_same_bytes(finished, opened, sandbox, tmp_path, monkeypatch):
    real, calls = build.make, []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(build, "make", killed)
    with pytest.raises(KeyboardInterrupt):
        made(opened, sandbox, tmp_path / "cut")
    with (tmp_path / "cut" / "made.jsonl").open("a") as file:
        file.write('\n{"key": "cut of')  # as kill -9 leaves it
    calls.clear()
    monkeypatch.setattr(build, "make", lambda *arguments: calls.append(arguments) or real(*arguments))
    monkeypatch.setattr("evaluation.from_code.calls.record.record", None)  # the tests do not run again
    again = made(opened, sandbox, tmp_path / "cut")
    assert 2 <= again.resumed < 10
    assert again.resumed + len(calls) == 10
    assert again.completion_file() == finished.completion_file()


def test_another_source_command_or_option_has_another_state(opened, tmp_path):
    project = opened(shop=SHOP)
    states = {
        state_of(tmp_path, project, [["a"]], Options()).folder,
        state_of(tmp_path, project, [["b"]], Options()).folder,
        state_of(tmp_path, project, [["a"]], Options(before=1)).folder,
        state_of(tmp_path, opened(shop=SHOP + "\n"), [["a"]], Options()).folder,
    }
    assert len(states) == 4


@pytest.mark.parametrize(
    ("tests", "sentence"),
    [
        (
            "raise SystemExit('boom')\n",
            r"exit code 1 and called no function of shop \(last lines: boom\): make them pass",
        ),
        ("pass\n", "may import another copy"),
        ("import time\ntime.sleep(60)\n", "did not end within 2 s and called no function of shop: give --timeout"),
    ],
)
def test_tests_that_call_nothing_are_one_sentence_with_the_remedy(opened, sandbox, tmp_path, tests, sentence):
    with pytest.raises(ProjectError, match=sentence):
        made(opened, sandbox, tmp_path / "state", tests, Options(limit_s=2.0))


def test_two_processes_do_not_make_the_same_dataset_at_once(tmp_path):
    with (
        State(tmp_path / "state").locked(),
        pytest.raises(ProjectError, match="another process makes the same dataset"),
        State(tmp_path / "state").locked(),
    ):
        pass


def test_rows_are_json_with_sorted_keys(finished):
    for line in finished.completion_file().splitlines():
        assert list(json.loads(line)) == sorted(json.loads(line))


@pytest.mark.thorough
def test_a_function_that_needs_an_installed_package_is_kept_where_the_sandbox_has_it(opened, sandbox, tmp_path):
    source = (
        "from packaging.version import Version\n\n\ndef newest(versions):\n"
        '    """The newest of some versions, as text."""\n'
        "    if not versions:\n        return None\n    best = versions[0]\n    for each in versions[1:]:\n"
        "        if Version(each) > Version(best):\n            best = each\n    return best\n"
    )
    tests = "import shop\nfor n in range(12):\n    shop.newest([f'1.{i * 7 % 11}' for i in range(n)])\n"
    bare = made(opened, sandbox, tmp_path / "bare", tests, shop=source)
    assert [each.reason for each in bare.result.made] == ["needs an installed package"]
    equipped = Sandbox.detect(packages=stage(("packaging",)))
    (row,) = made(opened, equipped, tmp_path / "equipped", tests, shop=source).result.completion
    assert row["source"]["packages"] == [f"packaging {version('packaging')}"]
    assert row["prompt"].startswith("from packaging.version import Version\n")


class Faulty:
    """The sandbox with a fault before every job; a job that is tried again succeeds."""

    def __init__(self, sandbox, lasting=False):
        self.packages, self._sandbox, self._tried, self._lasting = sandbox.packages, sandbox, set(), lasting

    def run(self, job, limits):
        return self._fault(job) or self._sandbox.run(job, limits)

    def judge(self, program, task, limits):
        return self._fault((program, task.test)) or self._sandbox.judge(program, task, limits)

    def _fault(self, key):
        first = str(key) not in self._tried
        self._tried.add(str(key))
        return Result("sandbox_error", "no process could be started") if first or self._lasting else None


@pytest.mark.thorough
def test_faults_of_the_sandbox_change_no_byte_and_a_lasting_one_stops_the_work(finished, opened, sandbox, tmp_path):
    again = made(opened, Faulty(sandbox), tmp_path / "faulty")
    assert again.completion_file() == finished.completion_file()
    assert again.infilling_file() == finished.infilling_file()
    with pytest.raises(SandboxFaultError, match="the sandbox failed repeatedly"):
        made(opened, Faulty(sandbox, lasting=True), tmp_path / "broken")
    after = made(opened, sandbox, tmp_path / "broken")
    assert after.completion_file() == finished.completion_file()


ORDERED = '''
def move_to_end(mapping, keys):
    """Moves keys to the end of a mapping."""
    present = [key for key in keys if key in mapping]
    for key in present:
        mapping[key] = mapping.pop(key)
    if len(present) > 100 or present[100:]:
        mapping.clear()


def as_floats(numbers):
    """Makes the numbers floats, which are equal to them."""
    for index, number in enumerate(numbers):
        if number is not None and index < 1000 or index + 1 > 2000:
            numbers[index] = float(number)
'''
ORDERED_TESTS = """
import shop
for n in range(12):
    shop.move_to_end({i: str(i) for i in range(n)}, [n // 2, n // 3])
    shop.as_floats([n, n + 1])
"""


def test_order_counts_where_it_is_the_effect_and_a_test_that_pass_passes_makes_no_task(opened, sandbox, tmp_path):
    finished = made(opened, sandbox, tmp_path / "state", ORDERED_TESTS, shop=ORDERED)
    (task,) = loads(finished.completion_file(), "mine", "mine.jsonl").tasks
    assert task.entry_point == "move_to_end"
    assert not Grader(sandbox).judge(task.prompt + "    pass\n", task).passed
    reasons = {each.key.split(":")[1]: each.reason for each in finished.result.made if each.row is None}
    assert reasons == {"as_floats": "has a test that an empty function (pass) would pass"}


def test_functions_that_were_not_called_before_a_crash_say_so(opened, sandbox, tmp_path):
    source = "".join(f'def f{i}(n):\n    """."""\n    x = n + {i}\n    return x\n' for i in range(2))
    tests = "import os, shop\nshop.f0(1)\nos._exit(7)\n"
    finished = made(opened, sandbox, tmp_path / "state", tests, shop=source)
    reasons = {each.key.split(":")[1]: each.reason for each in finished.result.made}
    assert reasons["f1"] == "was not called with plain data before the tests ended with exit code 7"
