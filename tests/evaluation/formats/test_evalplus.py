"""HumanEval+ and MBPP+, in EvalPlus' own form and in the Hugging Face Hub's, are judged by all their inputs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evaluation import dataset_files
from evaluation.dataset_process import parse_dataset_apart
from evaluation.datasets import Dataset, DatasetError, LeftOutTask, Task
from evaluation.grading import Grader
from evaluation.sandbox import Limits, Sandbox
from tests.evaluation.sandboxes import sandbox_or_skip

HUMANEVAL = dataset_files.load_bundled_dataset("humaneval")
HUB_HEAD = """

import numpy as np

def is_floats(x) -> bool:
    if isinstance(x, float):
        return True
    if isinstance(x, (list, tuple)):
        return all(isinstance(i, float) for i in x)
    if isinstance(x, np.ndarray):
        return x.dtype == np.float64 or x.dtype == np.float32
    return False


def assertion(out, exp, atol):
    exact_match = out == exp

    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not exact_match and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match
"""
"""As the tests begin on the Hub."""
SHARED = "\ndef similar_elements(test_tup1, test_tup2):\n  return tuple(set(test_tup1) & set(test_tup2))\n"
COMMON_DIVISOR = "    return max(n for n in range(1, min(a, b) + 1) if a % n == b % n == 0)\n"
SMALL_PRIMES = "    return n > 1 and all(n % p for p in (2, 3, 5, 7, 11, 13, 17, 19) if p < n)\n"
PASSES_BASE_ALONE = {
    # task: (base inputs, plus inputs, an answer that HumanEval's test accepts)
    "HumanEval/2": ([[3.5], [1.33]], [[1e-05]], "    return float('0.' + str(number).split('.')[1])\n"),
    "HumanEval/13": ([[3, 7], [10, 15]], [[0, 5]], COMMON_DIVISOR),
    "HumanEval/31": ([[6], [101]], [[23 * 29]], SMALL_PRIMES),
    "HumanEval/35": ([[[1, 2, 3]]], [[[-2, -1]]], "    return max([0, *l])\n"),
    "HumanEval/48": ([["aba"]], [[" a"]], "    return text.strip() == text.strip()[::-1]\n"),
    "HumanEval/53": ([[0, 1]], [[-1, -2]], "    return abs(x) + abs(y)\n"),
}  # fmt: skip


@pytest.fixture(scope="module")
def grader() -> Grader:
    return Grader(Sandbox.detect())


def loaded(*rows: dict[str, Any]) -> Dataset:
    return dataset_files.parse_dataset("".join(json.dumps(row) + "\n" for row in rows).encode(), "mine", "mine.jsonl")


def own_form(task: Task, base: list[Any], plus: list[Any], atol: float = 0) -> dict[str, Any]:
    """A row of HumanEvalPlus.jsonl."""
    fields = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
    return {
        **{name: getattr(task, name) for name in fields},
        "contract": '\n    assert True, "invalid inputs" # $_CONTRACT_$\n',
        "base_input": base,
        "atol": atol,
        "plus_input": plus,
    }


def hub_form(task: Task, inputs: list[Any], results: list[Any], atol: float = 0) -> dict[str, Any]:
    """A row of evalplus/humanevalplus."""
    test = (
        f"{HUB_HEAD}\n\ndef check(candidate):\n    inputs = {inputs}\n    results = {results}\n"
        f"    for i, (inp, exp) in enumerate(zip(inputs, results)):\n        assertion(candidate(*inp), exp, {atol})\n"
    )
    fields = ("task_id", "prompt", "canonical_solution", "entry_point")
    return {**{name: getattr(task, name) for name in fields}, "test": test}


def mbpp_row(**more: Any) -> dict[str, Any]:
    """A row of evalplus/mbppplus."""
    script = (
        f"import numpy as np\nfrom math import inf\n{HUB_HEAD}\ninputs = [[(3, 4), (4, 5)], [(5, 6), (6, 7)]]\n"
        "results = [(4,), (6,)]\nfor i, (inp, exp) in enumerate(zip(inputs, results)):\n"
        "    assertion(similar_elements(*inp), exp, 0)\n"
    )
    return {
        "task_id": 2,
        "code": SHARED,
        "prompt": "Write a function to find the shared elements from the given two lists.",
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "test_imports": [],
        "test_list": ["assert set(similar_elements((3, 4), (4, 5))) == set((4,))"],
        "test": script,
    } | more


def mbpp_own_form(number: int, entry_point: str, solution: str, inputs: list[Any], atol: float = 0) -> dict[str, Any]:
    """A row of MbppPlus.jsonl."""
    return {
        "task_id": f"Mbpp/{number}",
        "prompt": '"""\nWrite a function.\nassert True\n"""\n',
        "entry_point": entry_point,
        "canonical_solution": solution,
        "base_input": inputs,
        "atol": atol,
        "plus_input": {},
        "contract": "",
        "assertion": "assert True",
    }


def judge(grader: Grader, row: dict[str, Any], answer: str | None = None) -> str:
    (task,) = loaded(row).tasks
    verdict = grader.judge(task.build_program(task.canonical_solution if answer is None else answer), task)
    assert verdict.trust == "proxy", verdict.detail
    return verdict.status


@pytest.mark.parametrize("task_id", PASSES_BASE_ALONE)
def test_an_answer_that_only_the_base_inputs_accept_fails(grader: Grader, task_id: str) -> None:
    task = HUMANEVAL.get_task(task_id)
    base, plus, wrong = PASSES_BASE_ALONE[task_id]
    assert grader.judge(task.build_program(wrong), task).status == "passed"
    assert judge(grader, own_form(task, base, plus)) == "passed"
    assert judge(grader, own_form(task, base, plus), wrong) in ("wrong_answer", "exception")


def test_a_test_that_imports_numpy_is_judged_by_its_tolerance(grader: Grader) -> None:
    row = hub_form(HUMANEVAL.get_task("HumanEval/2"), [[3.5], [1e-05], [1.25]], [0.5, 1e-05, 0.25])
    assert judge(grader, row) == "passed"
    assert judge(grader, row, "    return number % 1.0 + 1e-7\n") == "passed"
    assert judge(grader, row, "    return number % 1.0 + 1e-3\n") == "wrong_answer"


@pytest.mark.parametrize(
    ("result", "status"),
    [("[0.1 + 0.2, inf]", "passed"), ("(0.3, inf)", "wrong_answer"), ("[0.3]", "wrong_answer"),
     ("[0.3, -inf]", "wrong_answer"), ("[0.3, 'inf']", "wrong_answer"), ("0.3", "wrong_answer")],
)  # fmt: skip
def test_results_compare_as_in_evalplus(grader: Grader, result: str, status: str) -> None:
    task = Task("T/0", "from math import inf\ndef f(x):\n", "f", "", "    return [0.3, inf]\n")
    assert judge(grader, own_form(task, [[1]], []), f"    return {result}\n") == status


def test_fields_that_decide_and_fields_that_do_not_are_known() -> None:
    task = HUMANEVAL.get_task("HumanEval/53")
    (own,) = loaded(own_form(task, [[0, 1]], [])).tasks
    assert own.source is not None
    assert own.source["judged_by"] == ["base_input", "plus_input", "atol", "canonical_solution"]
    assert own.source["not_used"] == ["test", "contract"]
    (plus, plain) = loaded(mbpp_row(), {k: v for k, v in mbpp_row(task_id=3).items() if k != "test"}).tasks
    assert [t.source and (t.source["judged_by"], t.source["not_used"]) for t in (plus, plain)] == [
        (["test"], ["source_file"]), (["test_list"], ["source_file"])
    ]  # fmt: skip
    (other,) = loaded({**hub_form(HUMANEVAL.get_task("HumanEval/2"), [[3.5]], [0.5]), "note": "of nobody"}).tasks
    assert other.source == {"not_used": ["note"]}
    assert dataset_files.parse_dataset(dataset_files.write_dataset([own, plus, other]), "again", "again").tasks == (
        own,
        plus,
        other,
    )


def test_a_script_beside_a_list_of_tests_decides(grader: Grader) -> None:
    base_alone = SHARED.replace("return ", "return (7,) if 5 in test_tup1 else ")
    assert judge(grader, mbpp_row()) == "passed"
    assert judge(grader, mbpp_row(), base_alone) == "wrong_answer"
    without = {name: value for name, value in mbpp_row().items() if name != "test"}
    assert judge(grader, without, base_alone) == "passed"


def test_a_script_that_asserts_nothing_is_left_out() -> None:
    script = (
        "def assertion(out, exp, atol):\n    exact_match = out == exp\nassertion(similar_elements((), ()), (), 0)\n"
    )
    left_out = loaded(mbpp_row(), mbpp_row(task_id=3, test=script)).left_out
    assert left_out == (LeftOutTask("MBPP/3", "its test asserts nothing, so every answer would pass"),)


def test_right_results_other_than_that_of_the_own_solution_pass(grader: Grader) -> None:
    shared = mbpp_own_form(2, "similar_elements", SHARED, [[[3, 4, 1], [4, 3]]])
    assert (
        judge(grader, shared, "def similar_elements(a, b):\n    return (4, 3) if isinstance(a, tuple) else ()\n")
        == "passed"
    )
    assert judge(grader, shared, "def similar_elements(a, b):\n    return (4,)\n") == "wrong_answer"
    root = own_form(HUMANEVAL.get_task("HumanEval/32"), [[[-6, 11, -6, 1]]], [], 1e-4)
    assert [judge(grader, root, f"    return {x}\n") for x in ("1.0", "3.0", "2.5")] == [
        "passed",
        "passed",
        "wrong_answer",
    ]
    cheat = "    xs[:] = [0] * len(xs)\n    return 7.0\n"
    assert judge(grader, root, cheat) == "wrong_answer"


def test_a_task_that_cannot_be_judged_is_left_out_with_its_reason() -> None:
    rows = [mbpp_own_form(2, "similar_elements", SHARED, [[[1], [1]]]),
            mbpp_own_form(164, "are_equivalent", "\ndef are_equivalent(a, b):\n  return True\n", [[1, 2]])]  # fmt: skip
    assert loaded(*rows).left_out == (LeftOutTask("Mbpp/164", "EvalPlus accepts every answer"),)
    large = "".join(json.dumps(row) + "\n" for row in rows).encode() + b" " * 2**19
    assert parse_dataset_apart(large, "mine", "mine.jsonl") == dataset_files.parse_dataset(large, "mine", "mine.jsonl")
    with pytest.raises(DatasetError, match="no task that can be judged: Mbpp/164: EvalPlus accepts"):
        loaded(rows[1])


@pytest.mark.parametrize(
    ("number", "written", "read"),
    [(2, [[1, 2], [3]], "[(1, 2), (3,)]"), (63, [[[1, 2]]], "[[(1, 2)]]"), (75, [[[1, 2]], 3], "[[(1, 2)], 3]"),
     (580, [[1, [2]]], "[(1, (2,))]"), (722, [{"a": [1, 2]}, 3], "[{'a': (1, 2)}, 3]"),
     (106, [[1], [2]], "[[1], (2,)]"), (115, [[[1, 1], [], True]], "[[{1}, {}, {}]]"),
     (124, ["1.5", "1+2j"], "[1.5, (1+2j)]"), (4, [[1], 2], "[[1], 2]")],
)  # fmt: skip
def test_types_that_json_does_not_have_are_restored(number: int, written: Any, read: str) -> None:
    (task,) = loaded(mbpp_own_form(number, "f", "\ndef f(*args):\n  return args\n", [written])).tasks
    assert f"inputs = [{read}]" in task.test


def test_a_function_named_check_is_judged(grader: Grader) -> None:
    row = mbpp_own_form(56, "check", "\ndef check(n):\n  return n == 70\n", [[70], [7]])
    assert judge(grader, row) == "passed"
    assert judge(grader, row, "def check(n):\n  return True\n") == "wrong_answer"


def test_a_program_sees_neither_numpy_nor_the_own_solution(grader: Grader) -> None:
    row = own_form(HUMANEVAL.get_task("HumanEval/53"), [[1, 2]], [])
    (task,) = loaded(row).tasks
    for answer, fault in {
        "    import numpy\n    return x + y\n": "ModuleNotFoundError",
        "    return canonical_solution(x, y)\n": "NameError",
        "    import sys\n    return sys.modules['canonical_solution'].add(x, y)\n": "KeyError",
    }.items():
        verdict = grader.judge(task.build_program(answer), task)
        assert (verdict.status, verdict.detail.partition(":")[0]) == ("exception", fault)


@pytest.mark.parametrize("used", ["np.load", "np.testing.measure", "np.lib.format", "(lambda m: m)(np)"])
def test_parts_of_numpy_that_execute_or_open_keep_a_test_out_of_the_checker(used: str, grader: Grader) -> None:
    test = f"import numpy as np\ndef check(candidate):\n    {used}\n    assert np.allclose(candidate(1, 2), 3)\n"
    task = Task("T/0", "", "add", test, "")
    verdict = grader.judge("def add(x, y):\n    return x + y\n", task)
    assert (verdict.status, verdict.trust) == ("passed", "in-guest")


@pytest.mark.parametrize(
    "test",
    ["import pandas\ndef check(candidate):\n    assert candidate(1) == 1\n",
     "def check(candidate):\n    from pandas.testing import assert_frame_equal\n    assert candidate(1) == 1\n"],
)  # fmt: skip
def test_a_package_that_the_judge_lacks_is_named_and_no_program_blamed(grader: Grader, test: str) -> None:
    verdict = grader.judge("def f(x):\n    return x\n", Task("T/0", "", "f", test, ""))
    assert (verdict.status, verdict.detail) == (
        "sandbox_error", "the test imports pandas, which the judge does not have"
    )  # fmt: skip


def test_a_package_that_a_test_can_do_without_is_not_needed(grader: Grader) -> None:
    guarded = "try:\n    import pandas\nexcept ImportError:\n    pandas = None\n"
    test = f"{guarded}def check(candidate):\n    assert candidate(1) == 1\n"
    assert grader.judge("def f(x):\n    return x\n", Task("T/0", "", "f", test, "")).status == "passed"


def test_a_call_that_never_returns_ends_long_before_the_time_of_all_inputs() -> None:
    limits = Limits(cpu_s=1, wall_s=5.0)
    row = own_form(HUMANEVAL.get_task("HumanEval/53"), [[1, 2]], [])
    (task,) = loaded(row).tasks
    verdict = Grader(Sandbox.detect(), limits).judge(task.build_program("    while True: pass\n"), task)
    assert (verdict.status, verdict.detail) == ("timeout", "one call used more than 3 CPU seconds")
    assert verdict.cpu_s < limits.extend_for_many_inputs().cpu_s / 2


def test_a_test_may_take_more_time_in_all_than_a_call_may() -> None:
    wait = "    import time\n    end = time.process_time() + 0.3\n    while time.process_time() < end: pass\n"
    spins = f"{wait}    return x + y\n"
    row = own_form(HUMANEVAL.get_task("HumanEval/53"), [[n, n] for n in range(6)], [])
    (task,) = loaded(row).tasks
    assert Grader(Sandbox.detect(), Limits(cpu_s=1)).judge(task.build_program(spins), task).status == "passed"


def test_a_test_that_calls_an_own_solution_which_is_not_there_is_refused() -> None:
    test = "def check(candidate):\n    assert candidate() == canonical_solution()\n"
    row = {"task_id": "T/0", "prompt": "def one():\n", "entry_point": "one", "test": test}
    with pytest.raises(DatasetError, match=r"line 1, field test: calls canonical_solution, and the task has none"):
        loaded(row)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"base_input": 3}, "field base_input: give a list of calls"), ({"atol": "small"}, "field atol: give a number"),
     ({"base_input": [], "plus_input": []}, "field base_input: base_input and plus_input are empty"),
     ({"canonical_solution": ""}, "field canonical_solution: is empty")],
)  # fmt: skip
def test_a_row_with_a_fault_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=f"mine.jsonl, line 1, {message}"):
        loaded(own_form(HUMANEVAL.get_task("HumanEval/53"), [[1, 2]], []) | change)


@pytest.mark.parametrize(("number", "arguments"), [(115, []), (115, [3]), (124, ["a", "b"]), (252, [])])
def test_arguments_of_another_type_than_the_task_has_are_refused(number: int, arguments: list[Any]) -> None:
    row = mbpp_own_form(number, "f", "\ndef f(*a):\n  return a\n", [arguments])
    with pytest.raises(DatasetError, match=f"line 1, field base_input or plus_input: .*Mbpp/{number}"):
        loaded(row)


def test_numpy_is_there_without_namespaces() -> None:
    (task,) = loaded(hub_form(HUMANEVAL.get_task("HumanEval/2"), [[3.5]], [0.5])).tasks
    sandbox = sandbox_or_skip("landlock")
    assert Grader(sandbox).judge(task.build_program(task.canonical_solution), task).status == "passed"
