"""Tasks that a project's own tests judge: which functions get one, which do not and why, and that it repeats."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluation.dataset_files import parse_dataset
from evaluation.from_code.build import Options
from evaluation.from_code.checks import MutationScore
from evaluation.from_code.mutants import Mutant
from evaluation.from_code.project_tests import checks
from evaluation.from_code.project_tests.checks import MIN_STRONG_MUTANTS, MIN_STRONG_TESTS, CheckedTests
from evaluation.from_code.project_tests.suite import _run_each_once
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.run import FinishedDataset, build_dataset, open_state
from evaluation.from_code.source.project import open_project
from evaluation.grading import Grader
from evaluation.project_tests.running import SuiteOutcomes
from evaluation.project_tests.spec import ProjectTests
from evaluation.sandbox import Sandbox, SandboxResult
from evaluation.verdicts import Status, Trust

SOURCE = '''
import mmap
import time

SIZE = 160 * 2**20


class Bus:
    """Calls listeners."""

    def __init__(self):
        self.listeners = []
        self._last = None

    def publish(self, event, *, only=None):
        """Calls each listener with the event, and returns how many took it."""
        if not isinstance(event, int):
            raise ValueError("An event is a number here")
        taken = 0
        for name, listener in self.listeners:
            if only is not None and name != only:
                continue
            if listener(event):
                taken += 1
        return taken

    def untested(self, events):
        total = 0
        for event in events:
            total += self.publish(event) + 1
        return total


def chance(pick):
    number = pick()
    if number > 0.5:
        return number - 1
    return number + 1


def saved(folder, listener):
    path = folder / "name.txt"
    path.write_text(str(listener()) + "!")
    return path.read_text()[:-1] + "." + str(len(str(path.stat().st_size + 1)))


def stamped(number, prefix="n"):
    """A number with a mark that is another one each time."""
    if number < 0:
        raise ValueError(number)
    return f"{prefix}{number + 1}-{time.perf_counter_ns()}"


def dated(number, prefix="n"):
    return f"{prefix}{number + 1} {time.strftime('%Y-%m-%d')}"


def fee(amount, listener=str):
    if amount == 9:
        return listener(amount * 3)
    return listener(amount + 1)


def hungry(number, listener=str):
    with mmap.mmap(-1, SIZE) as block:
        if number < 0:
            return listener(number - 1)
        return listener(number + block[0])


def listening(open_socket, number):
    with open_socket() as opened:
        return number + 1 if opened.fileno() > 0 else number
'''
TESTS = """
import os
import socket
import time
import pytest
from bus import Bus, chance, dated, fee, hungry, listening, saved, stamped


@pytest.fixture
def bus():
    made = Bus()
    made.listeners += [("a", lambda event: event > 1), ("b", lambda event: True)]
    return made


@pytest.mark.parametrize("event, taken", [(1, 1), (2, 2)])
def test_publish(bus, event, taken):
    assert bus.publish(event) == taken


def test_only(bus):
    assert bus.publish(2, only="a") == 1
    assert bus.publish(1, only="a") == 0


def test_that_looks_inside(bus):
    assert bus.publish(2) == 2
    assert bus._last is None


def test_not_a_number(bus):
    with pytest.raises(ValueError, match="An event is a number here"):
        bus.publish("two")


def test_without_an_assertion(bus):
    bus.untested([1, 2])


def test_stamped():
    assert stamped(2).startswith("n3-")
    assert stamped(0, "x").startswith("x1-")


def test_stamped_below_zero():
    with pytest.raises(ValueError):
        stamped(-1)


def test_dated():
    assert dated(2).startswith("n3 2")
    assert dated(0, "x").startswith("x1 2")
    assert dated(7) == "n8 " + time.strftime("%Y-%m-%d")


@pytest.mark.parametrize("number", range(5))
def test_dated_with_another_prefix(number):
    assert dated(number, "y") == f"y{number + 1} " + time.strftime("%Y-%m-%d")


def test_chance():
    assert chance(lambda: 0.7) == pytest.approx(-0.3)


def test_saved(tmp_path):
    assert saved(tmp_path, lambda: "x") == "x.1"


@pytest.mark.parametrize("amount", range(20))
def test_fee(amount):
    assert fee(amount, lambda due: due) == (27 if amount == 9 else amount + 1)


def test_hungry():
    assert hungry(2, lambda number: number) == 2
    assert hungry(-1, lambda number: number) == -2
    assert hungry(0, lambda number: number) == 0


def test_listening():
    assert listening(socket.socket, 1) == 2
"""


pytestmark = pytest.mark.slow


class _Silent:
    def on_recording(self, commands: object, seconds: float) -> None: ...

    def generating(self, done: int, total: int) -> None: ...

    def on_testing(self, done: int, total: int) -> None: ...

    def on_checking(self, done: int, total: int, made: object) -> None: ...


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], FinishedDataset]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "bus.py").write_text(SOURCE)
    (folder / "test_bus.py").write_text(TESTS)

    def made(state: str, judge: str = "tests") -> FinishedDataset:
        project = open_project(str(folder))
        command = [[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]]
        options = Options(judge=judge)
        place = open_state(folder.parent / state, project, command, options)
        return build_dataset(Sandbox.detect(), project, command, place, options, _Silent())

    return made


@pytest.fixture(scope="module")
def finished(make: Callable[[str], FinishedDataset]) -> FinishedDataset:
    return make("first")


def test_a_method_of_objects_and_functions_becomes_a_task_with_its_tests(finished: FinishedDataset) -> None:
    (row,) = [row for row in finished.result.completion if row["entry_point"] == "Bus.publish"]

    assert row["source"]["judge"] == "tests"
    assert (row["source"]["kind"], row["source"]["trust"]) == ("method", "in-guest")
    assert set(row["project_tests"]["tests"]) >= {"test_bus.py::test_publish[1-1]", "test_bus.py::test_only"}
    assert "test_bus.py::test_that_looks_inside" not in row["project_tests"]["tests"]
    assert row["source"]["mutation_score"] >= 0.8
    assert "def test_only(bus):" in row["test"]
    assert row["prompt"].endswith('returns how many took it."""\n')


def test_what_nothing_describes_is_unstated_and_a_surviving_mutant_makes_tests_weak(finished: FinishedDataset) -> None:
    sources = {row["entry_point"]: row["source"] for row in finished.result.completion}
    assert any("neither docstring nor example" in text for text in sources["saved"]["unstated"])
    assert not any("neither docstring nor example" in text for text in sources["Bus.publish"]["unstated"])
    assert any("An event is a number here" in text for text in sources["Bus.publish"]["unstated"])
    assert {name: each["weak"] for name, each in sources.items()} == {
        name: each["mutation_score"] < 1 or each["tests"] < MIN_STRONG_TESTS or each["mutants"] < MIN_STRONG_MUTANTS
        for name, each in sources.items()
    }


@pytest.mark.parametrize(
    ("n_tests", "n_mutants", "n_survivors", "are_weak"),
    [
        (MIN_STRONG_TESTS, MIN_STRONG_MUTANTS, 0, False),
        (MIN_STRONG_TESTS - 1, MIN_STRONG_MUTANTS, 0, True),
        (MIN_STRONG_TESTS, MIN_STRONG_MUTANTS - 1, 0, True),
        (40, 40, 1, True),
    ],
)
def test_few_tests_and_few_mutants_make_a_weak_judge(n_tests, n_mutants, n_survivors, are_weak):
    mutants = tuple(Mutant(str(n), "branch", n) for n in range(n_mutants))
    score = MutationScore(mutants, mutants[:n_survivors])
    assert CheckedTests(("test_a.py::test_b",) * n_tests, score, False, 256).are_weak is are_weak


def test_others_are_left_out_with_the_reason_and_what_would_unlock_them(finished: FinishedDataset) -> None:
    reasons = {made.key.split(":")[1]: made.reason for made in finished.result.made if made.row is None}

    assert reasons["Bus.untested"] == "has tests that miss more than a fifth of its mutants"
    assert reasons["listening"] == "is called by tests that do not pass in the sandbox"
    unlocks = {each.reason: each.unlock for each in finished.compute_coverage().left_out}
    assert "without network" in unlocks[reasons["listening"]]
    coverage = finished.compute_coverage()
    assert coverage.functions_called == 10
    assert coverage.covered_share == coverage.tasks / 10
    assert any("test_listening" in test for test in finished.suite.failures)


def test_a_call_that_gives_another_result_each_time_is_no_example(finished: FinishedDataset) -> None:
    (row,) = [row for row in finished.result.completion if row["entry_point"] == "stamped"]

    assert row["source"]["judge"] == "tests"
    assert row["source"]["examples"] == ["stamped(-1) raises ValueError"]


def test_a_call_that_gives_the_present_date_is_no_example(finished: FinishedDataset) -> None:
    (row,) = [row for row in finished.result.completion if row["entry_point"] == "dated"]

    assert row["source"]["judge"] == "tests"
    assert row["source"]["examples"] == []
    assert time.strftime("%Y-%m-%d") not in row["prompt"]


def test_a_task_whose_tests_write_files_says_so(finished: FinishedDataset) -> None:
    writes = {
        row["entry_point"]: row["project_tests"].get("writes", False)
        for row in finished.result.completion
        if "project_tests" in row
    }

    assert (writes["saved"], writes["Bus.publish"]) == (True, False)


def test_up_to_forty_tests_judge_for_what_one_alone_notices(finished: FinishedDataset) -> None:
    (row,) = [row for row in finished.result.completion if row["entry_point"] == "fee"]

    assert len(row["project_tests"]["tests"]) == 20
    assert "test_bus.py::test_fee[9]" in row["project_tests"]["tests"]


@pytest.mark.parametrize(("affordable", "chosen"), [(50, 40), (30, 12), (3, None)])
def test_where_many_tests_take_too_long_few_judge(
    monkeypatch: pytest.MonkeyPatch, affordable: int, chosen: int | None
) -> None:
    def choose(_judge: object, _spec: object, _function: object, tests: list[str]) -> tuple[list[str], bool]:
        if len(tests) > affordable:
            raise ExcludedError(checks.TOO_SLOW)
        return tests, False

    monkeypatch.setattr(checks, "_choose_passing", choose)
    spec = ProjectTests("", "", "bus.py", "fee", 1, tuple(f"test_{number}" for number in range(60)))
    unused: Any = None

    if chosen is None:
        with pytest.raises(ExcludedError):
            checks.choose_affordable_tests(unused, spec, unused)
    else:
        assert len(checks.choose_affordable_tests(unused, spec, unused)[0]) == chosen


def test_answers_get_little_memory_where_the_original_needs_no_more(finished: FinishedDataset) -> None:
    memory = {row["entry_point"]: row["project_tests"].get("memory_mib") for row in finished.result.completion}

    assert memory["Bus.publish"] == memory["fee"] == 256
    assert memory["hungry"] is None


@pytest.mark.thorough
def test_the_same_project_gives_the_same_bytes(
    make: Callable[[str], FinishedDataset], finished: FinishedDataset
) -> None:
    again = make("second")

    assert again.build_completion_file() == finished.build_completion_file()
    assert again.build_infilling_file() == finished.build_infilling_file()
    assert again.suite.files is not None
    assert finished.suite.files is not None
    assert again.suite.files.archives == finished.suite.files.archives


def test_a_grader_with_the_archives_judges_answers_and_one_without_says_what_is_missing(
    finished: FinishedDataset,
) -> None:
    dataset = parse_dataset(finished.build_completion_file(), "bus", "bus.jsonl")
    assert finished.suite.files is not None
    (task,) = [task for task in dataset.tasks if task.entry_point == "Bus.publish"]
    elsewhere = Grader(Sandbox.detect(), archives=finished.suite.files.archives.get)
    right = elsewhere.judge(task.build_program(task.canonical_solution), task)
    wrong = elsewhere.judge(task.build_program("        return len(self.listeners)\n"), task)

    assert (right.status, right.trust) == (Status.PASSED, Trust.IN_GUEST)
    assert wrong.status == Status.WRONG_ANSWER
    content = json.loads(finished.build_completion_file().splitlines()[0])
    content["project_tests"]["project"] = "0" * 64
    (foreign,) = parse_dataset(json.dumps(content).encode(), "bus", "bus.jsonl").tasks
    lacking = elsewhere.judge(foreign.build_program(foreign.canonical_solution), foreign)
    assert lacking.status == Status.SANDBOX_ERROR
    assert "is not in this database" in lacking.detail


def test_a_test_that_ends_its_process_is_named_and_those_behind_it_run() -> None:
    """The third test never ends; a run has time for two tests beside it."""

    def run(tests: Sequence[str]) -> SuiteOutcomes:
        ended = list(tests).index("hangs") if "hangs" in tests else len(tests)
        passed = list(tests)[: min(2, ended)]
        left = list(tests)[len(passed) :]
        status = Status.TIMEOUT if left else Status.PASSED
        return SuiteOutcomes(SandboxResult(status, "no end"), passed, {}, left)

    passed, failed = _run_each_once("test_x.py", ["a", "b", "hangs", "c", "d", "e"], run)
    assert (passed, failed) == ({"a", "b", "c", "d", "e"}, {"hangs": "no end"})


def test_a_dataset_file_with_a_broken_spec_is_refused(finished: FinishedDataset) -> None:
    content = json.loads(finished.build_completion_file().splitlines()[0])
    content["project_tests"]["file"] = "../bus.py"

    with pytest.raises(ValueError, match="must lie inside the project"):
        parse_dataset(json.dumps(content).encode(), "bus", "bus.jsonl")


def test_the_archives_have_no_hidden_file_and_no_path_of_the_machine(finished: FinishedDataset, tmp_path: Path) -> None:
    from evaluation.project_tests.archive import unpack

    assert finished.suite.files is not None
    for sha256, content in finished.suite.files.archives.items():
        files = unpack(content, sha256)
        assert not any(part.startswith(".") for path in files for part in path.split("/"))
        assert not any(path.endswith(("direct_url.json", "RECORD", ".pyc")) for path in files)
