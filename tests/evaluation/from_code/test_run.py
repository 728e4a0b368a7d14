"""From a project to its dataset: what is kept, what is left out and why, and that the result repeats."""

from __future__ import annotations

import json
import sys
import textwrap
import threading
import time
from contextlib import closing

import pytest

from evaluation.dataset_files import parse_dataset
from evaluation.extraction import extract
from evaluation.from_code import build
from evaluation.from_code.build import Options
from evaluation.from_code.calls.cases import MAX_CASES
from evaluation.from_code.fairness import MAX_EXAMPLES, MAX_WITH_NEARBY
from evaluation.from_code.nearby_cases import MAX_JUDGING, MAX_SHOWN
from evaluation.from_code.reasons import ProjectError, SandboxFaultError, find_remedy
from evaluation.from_code.run import build_dataset, open_state
from evaluation.from_code.sandbox_jobs import run_parallel
from evaluation.from_code.state import BuildState
from evaluation.grading import Grader
from evaluation.prompting import build_prompt
from evaluation.sandbox import SandboxResult
from tests.evaluation.from_code.conftest import opener_in
from tests.fakes import INFILL
from tests.thorough import thorough

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
    """Prints sixteen megabytes."""
    line = "x" * 2**24
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
    if i % 8 == 0:
        shop.loud(i)
    list(shop.pairs(list(range(i % 7))))
"""


class Quiet:
    def on_recording(self, commands, seconds):
        pass

    def on_testing(self, done, total):
        pass

    def on_checking(self, done, total, made):
        pass


def made(opened, sandbox, state, tests=TESTS, options=Options(limit_s=60.0), **modules):  # noqa: B008
    project = opened({"run_tests.py": tests}, **(modules or {"shop": SHOP}))
    (project.root / "run_tests.py").rename(project.root / "test_run.py")
    command = [sys.executable, str(project.root / "test_run.py")]
    return build_dataset(sandbox, project, [command], BuildState(state), options, Quiet())


@pytest.fixture(scope="module")
def finished(sandbox, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    return made(opener_in(folder), sandbox, folder / "state")


def test_what_repeats_is_kept_and_the_rest_has_its_reason(finished):
    assert [row["entry_point"] for row in finished.result.completion] == ["gross", "pairs"]
    reasons = {each.key.split(":")[1]: each.reason for each in finished.result.made if each.row is None}
    assert reasons == {
        "gross_again": "has the same body as another function",
        "lottery": "does not repeat in the sandbox what it did in its tests",
        "now": "does not repeat in the sandbox what it did in its tests",
        "counted": "does not repeat in the sandbox what it did in its tests",
        "saved": "does not repeat in the sandbox what it did in its tests",
        "connected": "does not repeat in the sandbox what it did in its tests",
        "loud": "cannot do in the sandbox what it did in its tests",
        "constant": "does the same in every call, so that its test could not tell it from a constant",
    }


def test_each_task_says_where_it_comes_from_and_how_strong_its_test_is(finished):
    source = finished.result.completion[0]["source"]
    assert (source["file"], source["line"]) == ("shop.py", 14)
    assert 3 <= source["cases"] <= MAX_CASES + MAX_JUDGING + MAX_SHOWN
    assert source["mutants"] >= 10
    assert source["mutation_score"] == round(source["killed"] / source["mutants"], 4)
    assert source["weak"] == bool(source["survivors"])


def test_both_forms_load_and_their_own_solutions_pass_by_proxy(finished, sandbox):
    grader = Grader(sandbox)
    for content in (finished.build_completion_file(), finished.build_infilling_file()):
        for task in parse_dataset(content, "mine", "mine.jsonl").tasks:
            verdict = grader.judge(task.build_program(task.canonical_solution), task)
            assert (verdict.status, verdict.trust) == ("passed", "proxy"), verdict
            assert not grader.judge(task.build_program("    return None\n"), task).passed


def test_the_infilling_form_shows_the_file_and_judges_a_program_that_runs(opened, sandbox, tmp_path):
    options = Options(before=4, after=3, limit_s=60.0)
    tests = "import shop\nfor i in range(30):\n    shop.gross(i / 4)\n"
    finished = made(opened, sandbox, tmp_path / "state", tests, options, shop=SHOP.partition("\n\ndef pairs")[0])
    task = parse_dataset(finished.build_infilling_file(), "mine", "mine.jsonl").tasks[0]
    before, _, rest = task.prompt.partition("# For example:\n")
    assert before == "\n\n"
    *examples, signature, _docstring = rest.splitlines()
    assert signature == "def gross(net, rate=RATE):"
    assert MAX_EXAMPLES <= len(examples) <= MAX_WITH_NEARBY
    assert all(line.startswith("# gross(") for line in examples)
    assert task.suffix == "\n\ndef gross_again(price, tax=RATE):\n"
    assert task.program_prefix == 'def gross(net, rate=RATE):\n    """The price with tax, rounded to cents."""\n'
    prompt = build_prompt(task, "infill", INFILL)
    assert prompt.text == f"<PRE>{task.prompt}<SUF>{task.suffix}<MID>"
    assert {"\nd", "\n@"} < set(prompt.stop), "a sample ends at the first unindented line"


def test_an_answer_may_use_what_stands_beside_it_in_its_file(finished, sandbox):
    for content in (finished.build_completion_file(), finished.build_infilling_file()):
        task = parse_dataset(content, "mine", "mine.jsonl").tasks[0]
        assert task.entry_point == "gross"
        assert Grader(sandbox).judge(task.build_program("    return gross_again(net, rate)\n"), task).passed
        assert not Grader(sandbox).judge(task.build_program("    return NoPrice(net)\n"), task).passed


def test_a_run_that_was_killed_goes_on_and_gives_the_bytes_of_another_run_without_a_path_of_this_machine(
    finished, opened, sandbox, tmp_path, monkeypatch
):
    real, calls = build.make_task_from_calls, []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(build, "make_task_from_calls", killed)
    with pytest.raises(KeyboardInterrupt):
        made(opened, sandbox, tmp_path / "cut")
    with (tmp_path / "cut" / "made.jsonl").open("a") as file:
        file.write('\n{"key": "cut of')  # as kill -9 leaves it
    calls.clear()
    monkeypatch.setattr(build, "make_task_from_calls", lambda *arguments: calls.append(arguments) or real(*arguments))
    monkeypatch.setattr("evaluation.from_code.calls.record.record_calls", None)  # the tests do not run again
    again = made(opened, sandbox, tmp_path / "cut")
    assert 0 < len(calls) <= 8  # of ten functions, two were made before
    assert again.build_completion_file() == finished.build_completion_file()
    assert again.build_infilling_file() == finished.build_infilling_file()
    assert str(tmp_path).encode() not in again.build_completion_file() + again.build_infilling_file()


def test_the_work_on_others_stops_where_the_caller_fails():
    begun = []

    def work(number):
        begun.append(number)
        time.sleep(0.001)

    def fail_at_the_first():
        with closing(run_parallel(work, range(1000), 1)) as results:
            for _ in results:
                raise KeyError

    with pytest.raises(KeyError):
        fail_at_the_first()
    assert len(begun) < 1000
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("from-code")] == []


def test_another_source_command_or_option_has_another_state(opened, tmp_path):
    project = opened(shop=SHOP)
    states = {
        open_state(tmp_path, project, [["a"]], Options()).folder,
        open_state(tmp_path, project, [["b"]], Options()).folder,
        open_state(tmp_path, project, [["a"]], Options(before=1)).folder,
        open_state(tmp_path, opened(shop=SHOP + "\n"), [["a"]], Options()).folder,
    }
    assert len(states) == 4


@pytest.mark.parametrize(
    ("tests", "sentence"),
    [
        (
            "raise SystemExit('boom')\n",
            r"exit code 1 and called no function of shop \(last lines: boom\): make them pass",
        ),
        (
            "import gadgets\n",
            r"import gadgets, which is not installed .*: install its package with `python -m pip",
        ),
        thorough(
            "import shop.tills\n", r"import shop.tills, .*: install the project with `python -m pip install -e \.`"
        ),
        thorough("pass\n", "may import another copy"),
        ("import time\ntime.sleep(60)\n", "did not end within 2 s and called no function of shop: give --timeout"),
    ],
)
def test_tests_that_call_nothing_are_one_sentence_with_the_remedy(opened, sandbox, tmp_path, tests, sentence):
    with pytest.raises(ProjectError, match=sentence):
        made(opened, sandbox, tmp_path / "state", tests, Options(limit_s=2.0))


def test_rows_are_json_with_sorted_keys(finished):
    for line in finished.build_completion_file().splitlines():
        assert list(json.loads(line)) == sorted(json.loads(line))


def test_a_function_that_needs_an_installed_package_takes_its_source_along(opened, sandbox, tmp_path):
    source = (
        "from packaging.version import Version\n\n\ndef newest(versions):\n"
        '    """The newest of some versions, as text."""\n'
        "    if not versions:\n        return None\n    best = versions[0]\n    for each in versions[1:]:\n"
        "        if Version(each) > Version(best):\n            best = each\n    return best\n"
    )
    tests = "import shop\nfor n in range(12):\n    shop.newest([f'1.{i * 7 % 11}' for i in range(n)])\n"
    (row,) = made(opened, sandbox, tmp_path / "state", tests, shop=source).result.completion
    assert row["source"]["packages"] == ["packaging"]
    assert row["prompt"].startswith("from packaging.version import Version\n")


class Faulty:
    """The sandbox with a fault before every job; a job that is tried again succeeds."""

    def __init__(self, sandbox, lasting=False, tried=()):
        self.packages, self._sandbox, self._tried, self._lasting = sandbox.packages, sandbox, set(tried), lasting

    def with_hash_seed(self, seed):
        return Faulty(self._sandbox.with_hash_seed(seed), self._lasting, self._tried)

    def run(self, job, limits):
        return self._fault(job) or self._sandbox.run(job, limits)

    def judge(self, program, task, limits):
        return self._fault((program, task.test)) or self._sandbox.judge(program, task, limits)

    def _fault(self, key):
        first = str(key) not in self._tried
        self._tried.add(str(key))
        return SandboxResult("sandbox_error", "no process could be started") if first or self._lasting else None


@pytest.mark.thorough
def test_faults_of_the_sandbox_change_no_byte_and_a_lasting_one_stops_the_work(finished, opened, sandbox, tmp_path):
    again = made(opened, Faulty(sandbox), tmp_path / "faulty")
    assert again.build_completion_file() == finished.build_completion_file()
    assert again.build_infilling_file() == finished.build_infilling_file()
    with pytest.raises(SandboxFaultError, match="the sandbox failed repeatedly"):
        made(opened, Faulty(sandbox, lasting=True), tmp_path / "broken")
    after = made(opened, sandbox, tmp_path / "broken")
    assert after.build_completion_file() == finished.build_completion_file()


TRIVIAL = '''
def as_floats(numbers):
    """Makes the numbers floats, which are equal to them."""
    for index, number in enumerate(numbers):
        if number is not None and index < 1000 or index + 1 > 2000:
            numbers[index] = float(number)
'''
TRIVIAL_TESTS = """
import shop
for n in range(12):
    shop.as_floats([n, n + 1])
"""


def test_a_test_that_pass_passes_makes_no_task(opened, sandbox, tmp_path):
    finished = made(opened, sandbox, tmp_path / "state", TRIVIAL_TESTS, shop=TRIVIAL)
    (result,) = finished.result.made
    assert result.reason == "has a test that a body without content would pass"


LONG = """
def clean(text):
    \"\"\"The text in small letters without spaces at its ends.\"\"\"
    text = text.strip()
    return text.lower()
"""


@pytest.mark.parametrize("n_short", [0, 1])
def test_calls_that_are_too_long_for_a_test_are_named_as_the_reason(opened, sandbox, tmp_path, n_short):
    tests = f"import long\nfor n in range(5):\n    long.clean(' A' * (1 if n < {n_short} else 1000 + n))\n"
    (result,) = made(opened, sandbox, tmp_path / "state", tests, long=LONG).result.made
    assert result.reason == "has fewer than 2 calls that are short enough for its test"
    assert find_remedy(result.reason).startswith("tests that call it with smaller values")


GRADE = """
def grade(points, notes=""):
    \"\"\"Five for 90 points or more, and a point of the grade less for each 15 less, at least 0; of "a" another.\"\"\"
    if len(notes) > 300:
        return {"hidden": "see the notes"}
    if notes == "a":
        return -1
    if points >= 90:
        return 5
    return max(0, 5 - (105 - points) // 15)
"""
GRADE_TESTS = """
import grade
for points in range(2, 101, 2):
    grade.grade(points)
grade.grade(-20)
grade.grade(95, "a")
grade.grade(50, "x" * 300)
grade.grade(1, "x" * 301)
"""


def test_calls_that_ask_for_what_the_prompt_does_not_tell_do_not_judge_where_the_others_are_enough(
    opened, sandbox, tmp_path
):
    (row,) = made(opened, sandbox, tmp_path / "state", GRADE_TESTS, grade=GRADE).result.completion
    source = row["source"]
    assert source["survivors"] == []
    assert (source["unstated"], source["unstated_cases"], source["weak"]) == ([], 2, False)
    assert "see the notes" not in row["test"]
    answer = row["prompt"] + row["canonical_solution"].replace("see the notes", "anything")
    (task,) = parse_dataset(json.dumps(row).encode(), "mine", "mine.jsonl").tasks
    assert Grader(sandbox).judge(answer, task).passed


def test_what_a_decorator_may_change_is_left_to_tests_that_call_through_it(opened, sandbox, tmp_path):
    source = "def truth(function):\n    return lambda *given: bool(function(*given))\n\n\n@truth\n" + GRADE.lstrip()
    finished = made(opened, sandbox, tmp_path / "state", GRADE_TESTS, grade=source)
    reasons = {each.key.split(":")[1]: f"{each.reason} {each.detail}" for each in finished.result.made if not each.row}
    assert "a decorator that may change what its callers see" in reasons["grade"]


def test_functions_that_were_not_called_before_a_crash_say_so(opened, sandbox, tmp_path):
    source = "".join(f'def f{i}(n):\n    """."""\n    x = n + {i}\n    return x\n' for i in range(2))
    tests = "import os, shop\nshop.f0(1)\nos._exit(7)\n"
    finished = made(opened, sandbox, tmp_path / "state", tests, shop=source)
    reasons = {each.key.split(":")[1]: each.reason for each in finished.result.made}
    assert reasons["f1"] == "was not called before the tests ended with exit code 7"


SHELF = '''
import contextlib
import functools
import sys

LIMIT = 7


class TooMany(Exception):
    """The shelf is full."""


class Thing:
    __slots__ = ("name", "weight")

    def __init__(self, name, weight):
        self.name = name
        self.weight = weight

    def __eq__(self, other):
        return isinstance(other, Thing) and self.name == other.name


class Shelf:
    """Things on a shelf."""

    def __init__(self, size):
        self.size = size
        self.things = []

    def add(self, thing, times=1):
        """Puts a thing on the shelf, and says how many it holds now."""
        if len(self.things) + times > min(self.size, LIMIT):
            raise TooMany(thing.name)
        self.things.extend([thing] * times)
        return len(self.things)

    @property
    def weight(self):
        return sum(thing.weight for thing in self.things) + self.size

    @weight.setter
    def weight(self, value):
        for thing in self.things:
            thing.weight = value / len(self.things)

    @classmethod
    def of(cls, names):
        made = cls(len(names) + 1)
        for name in names:
            made.add(Thing(name, len(name)))
        return made

    @staticmethod
    def label(name, width):
        return name[:width].rjust(width, "."[: width % 2 + 1])

    def heaviest(self):
        best = None
        for thing in self.things:
            if best is None or thing.weight > best.weight:
                best = thing
        return best

    def names(self):
        for thing in self.things:
            if thing.weight > 1:
                yield thing.name

    async def fetch(self, key):
        import asyncio  # here, since it takes longer than everything else that the tests do

        await asyncio.sleep(0) if key is None else None
        return [thing for thing in self.things if thing.name == key]

    @contextlib.contextmanager
    def without(self, count):
        kept, self.things = self.things, self.things[count:]
        yield len(self.things)
        self.things = kept[: self.size]


if sys.version_info >= (3, 0):

    @functools.lru_cache(None)
    def doubled(text, times=2):
        return text * times + "!"[: times % 2]
'''
SHELF_TESTS = """
import asyncio, shelf
for n in range(9):
    one = shelf.Shelf.of(["abcdefghij"[i : 2 * i + 1] for i in range(n % 4)])
    for i in range(n):
        try:
            one.add(shelf.Thing("x" * i, i), 1 + i % 2)
        except shelf.TooMany:
            pass
    one.heaviest(), list(one.names()), one.weight, shelf.Shelf.label("abc" * n, n + 2)
    if n % 3:
        one.weight = n
    asyncio.run(one.fetch("x" * n))
    asyncio.run(one.fetch("ab"[n % 2]))
    with one.without(n // 2):
        pass
    shelf.doubled("ab" * n, n)
"""


@pytest.fixture(scope="module")
def shelves(sandbox, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shelves")
    return made(opener_in(folder), sandbox, folder / "state", SHELF_TESTS, shelf=SHELF)


def test_methods_of_every_kind_become_tasks(shelves):
    kinds = {row["entry_point"]: row["source"]["kind"] for row in shelves.result.completion}
    assert kinds == {
        "Shelf.add": "method", "Shelf.weight": "property", "Shelf.of": "classmethod", "Shelf.label": "staticmethod",
        "Shelf.heaviest": "method", "Shelf.names": "method", "Shelf.fetch": "method", "Shelf.without": "method",
        "doubled": "function", "Shelf.__init__": "constructor", "Thing.__init__": "constructor",
    }, {each.key: (each.reason, each.detail) for each in shelves.result.made if each.row is None}  # fmt: skip
    assert len({row["task_id"] for row in shelves.result.completion}) == 12


def test_methods_own_solutions_pass_by_proxy_in_both_forms_and_empty_bodies_do_not(shelves, sandbox):
    grader = Grader(sandbox)
    forms = (shelves.build_completion_file(), ("pass", "return None", "return 0", "raise ValueError"))
    for content, empty in (forms, (shelves.build_infilling_file(), ("pass",))):
        for task in parse_dataset(content, "mine", "mine.jsonl").tasks:
            verdict = grader.judge(task.build_program(task.canonical_solution), task)
            assert (verdict.status, verdict.trust) == ("passed", "proxy"), (task.task_id, verdict)
            margin = task.canonical_solution[: len(task.canonical_solution) - len(task.canonical_solution.lstrip())]
            for body in empty:
                assert not grader.judge(task.build_program(f"{margin}{body}\n"), task).passed, (task.task_id, body)


def answers(task):
    """An answer to Shelf.add as models write it."""
    body = task.canonical_solution
    whole = task.prompt + body
    return {
        "completion": [body, body + "\n    def other(self):\n        return 1\n"],
        "chat": [
            whole + "```",
            f"def add(self, thing, times=1):\n{textwrap.indent(textwrap.dedent(body), '    ')}```",
            f"import os\n\nclass Shelf:\n    def add(self, thing, times=1):\n{body}```",
        ],
    }


def test_a_method_is_found_in_every_form_of_answer(shelves, sandbox):
    tasks = {
        task.entry_point: task for task in parse_dataset(shelves.build_completion_file(), "mine", "mine.jsonl").tasks
    }
    task = tasks["Shelf.add"]
    for mode, texts in answers(task).items():
        for text in texts:
            extraction = extract(task, text, mode)
            assert Grader(sandbox).judge(extraction.program, task).passed, (mode, text, extraction)
    assert {"\n    d", "\nd"} <= set(build_prompt(task, "completion").stop), "a sample ends with its method"


HOSTILE = {
    "an evil __eq__": "class Any:\n            __eq__ = lambda *_: True\n        return Any()",
    "an evil __eq__ on the class": "Shelf.__eq__ = Thing.__eq__ = lambda *_: True\n        return self",
    "an evil __reduce__": "Shelf.__reduce__ = Shelf.__reduce_ex__ = lambda *_: (int, (1,))\n        return self",
    "an evil __setattr__": "Shelf.__setattr__ = Shelf.__getattribute__ = lambda *_: 1\n        self.things = []",
    "an evil int": "class Number(int):\n            __eq__ = lambda *_: True\n        return Number(1)",
    "a receiver that remembers": "self.things = self.__dict__.setdefault('kept', [])\n        return len(self.things)",
    "a state between calls": "Shelf.calls = getattr(Shelf, 'calls', 0) + 1\n        return Shelf.calls",
    "a patched writer": (
        "import sys\n        sys.modules['evaluation.from_code.recording.values'].serialize = lambda *_: '1'\n"
        "        return 1"
    ),
    "a patched comparison": (
        "import sys\n        equality = sys.modules['evaluation.from_code.placing.tree_equality']\n"
        "        equality.agrees = equality.is_same_value = lambda *_: True\n        return 1"
    ),
    "the original from its module": "return type(self).__dict__['add'].__wrapped__(self, thing, times)",
    "the source of its module": (
        "import inspect\n        text = inspect.getsource(sys.modules[__name__])\n"
        "        assert 'self.things.extend' not in text\n        return 1"
    ),
    "the caller's frame": (
        "frame = sys._getframe()\n        while frame:\n            found = frame.f_locals.get('expected')\n"
        "            if found:\n                return found\n            frame = frame.f_back"
    ),
    "an exit": "import os\n        os._exit(0)",
    "every exception at once": "raise type('All', (KeyError, ValueError, OSError), {})()",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_object_passes(shelves, sandbox, name):
    for content in (shelves.build_completion_file(), shelves.build_infilling_file()):
        (task,) = (t for t in parse_dataset(content, "mine", "mine.jsonl").tasks if t.entry_point == "Shelf.add")
        verdict = Grader(sandbox).judge(task.build_program(f"        {HOSTILE[name]}\n"), task)
        assert not verdict.passed
        assert verdict.trust == "proxy"


STACK = """
class Stack:
    \"\"\"A stack.\"\"\"

    def __init__(self, items=()):
        self._items = list(items)

    def __len__(self):
        return len(self._items)

    @property
    def top(self):
        return self._items[-1]

    def push(self, item, times=1):
        for _ in range(times):
            if item is not None:
                self._items.append(item)
        return self
"""
STACK_TESTS = """
import stack
for n in range(12):
    one = stack.Stack(range(n % 3))
    one.push(n if n % 4 else None, n % 5).push("x")
"""


def test_private_state_is_judged_by_what_a_caller_sees_of_it(opened, sandbox, tmp_path):
    found = made(opened, sandbox, tmp_path / "state", STACK_TESTS, stack=STACK)
    rows = {row["entry_point"]: row for row in found.result.completion}
    row = rows["Stack.push"]
    assert row["source"]["judge"] == "cases"
    assert row["source"]["mutation_score"] >= 0.8
    task = parse_dataset(json.dumps(row).encode(), "stack", "stack.jsonl").tasks[0]
    same = (
        "        if item is not None:\n            self._items.extend([item] * times)\n"
        "        self._last_pushed = item\n        return self\n"
    )
    other = "        if item is not None:\n            self._items[:0] = [item] * times\n        return self\n"
    verdicts = [Grader(sandbox).judge(task.build_program(body), task) for body in (same, other)]
    assert [(verdict.status, verdict.trust) for verdict in verdicts] == [("passed", "proxy"), ("wrong_answer", "proxy")]
