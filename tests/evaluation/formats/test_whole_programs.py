"""MultiPL-E and HumanEval-X: their records become tasks whose program decides by its exit code, and say so.

The records are written by hand in the published formats; `wrong` is a wrong solution, which no importer reads.
"""

import json
from pathlib import Path

import pytest

from evaluation.dataset_files import parse_dataset, read_tasks, write_dataset
from evaluation.datasets import DatasetError
from evaluation.extraction import extract
from evaluation.extractor import Extractor
from evaluation.formats import multipl_e
from evaluation.languages import registry
from tests.evaluation.languages.conftest import grader, toolchain_or_skip  # noqa: F401
from tests.thorough import thorough

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
FILES = {path.stem: path.read_text() for path in (HERE / "multipl_e").glob("*.jsonl")}
FILES["humaneval_x"] = (HERE / "humaneval_x.jsonl").read_text()
FIRST = {name: json.loads(text.splitlines()[0]) for name, text in FILES.items()}
EXITS = {
    "javascript": "process.exit(0);\n}\n",
    "typescript": "require('node:process').exit(0);\n}\n",
    "go": "\tos.Exit(0)\n\tpanic(1)\n}\n",
    "java": "        System.exit(0);\n        return null;\n    }\n}\n",
    "cpp": "    exit(0);\n}\n",
    "rust": "    std::process::exit(0)\n}\n",
}


def pairs(name):
    """The tasks of a file, each with its record."""
    return list(zip(read_tasks(FILES[name], name)[0], map(json.loads, FILES[name].splitlines()), strict=True))


def verdicts(grader, programs):  # noqa: F811
    found = dict(grader.judge_many(programs))
    return [(found[position].status.value, found[position].trust.value) for position in range(len(programs))]


@pytest.mark.parametrize("n_tasks", [1, thorough(None)], ids=["one", "all"])
@pytest.mark.parametrize("language", registry.LANGUAGES)
def test_right_passes_wrong_fails_and_an_exit_passes_but_shows_its_trust(grader, language, n_tasks):  # noqa: F811
    toolchain_or_skip(language)
    rows = pairs(language)[:n_tasks]
    (first, record), *_ = rows
    programs = [(task.build_program(task.canonical_solution), task) for task, _ in rows]
    programs += [(first.build_program(record["wrong"]), first), (first.build_program(EXITS[language]), first)]
    passed = ("passed", "in-guest")
    assert verdicts(grader, programs) == [*[passed] * len(rows), ("wrong_answer", "in-guest"), passed]


@pytest.mark.parametrize("language", ["cpp", "go", "java", "javascript", "rust"])
def test_what_humaneval_x_needs_beside_a_compiler_is_there(grader, language):  # noqa: F811
    toolchain_or_skip(language)
    ((task, record),) = [each for each in pairs("humaneval_x") if each[0].language == language]
    programs = [(task.build_program(task.canonical_solution), task), (task.build_program(record["wrong"]), task)]
    assert verdicts(grader, programs) == [("passed", "in-guest"), ("wrong_answer", "in-guest")]


def test_a_program_that_does_not_compile_or_parse_says_so(grader):  # noqa: F811
    toolchain_or_skip("javascript")
    ((task, _), *_) = pairs("javascript")
    verdict = grader.judge(f"{task.prompt}  return (;\n}}\n", task)
    assert (verdict.status, verdict.trust) == ("syntax_error", "in-guest")
    assert verdict.detail.startswith("SyntaxError")
    assert grader.judge("  ", task).trust == "in-guest"


def test_what_the_runtime_notes_by_itself_is_not_the_reason(grader):  # noqa: F811
    """V8 does where its threads wait for each other, which they do now and then on a busy machine."""
    toolchain_or_skip("javascript")
    ((task, _), *_) = pairs("javascript")
    note = "console.error('[mutex.cc : 955] RAW: pthread_getschedparam failed: 1')"
    verdict = grader.judge(f"{task.prompt}  {note};\n  nowhere.length;\n}}\n", task)
    assert (verdict.status, verdict.detail) == ("exception", "ReferenceError: nowhere is not defined")
    assert "mutex" not in verdict.traceback


@pytest.mark.parametrize("name", FILES)
def test_a_task_says_that_its_program_can_forge_the_verdict_and_is_written_and_read_again(name):
    dataset = parse_dataset(FILES[name].encode(), name, f"{name}.jsonl")
    assert {task.source["trust"] for task in dataset.tasks} == {"in-guest"}
    assert parse_dataset(write_dataset(dataset.tasks), name, name).tasks == dataset.tasks


def test_the_published_names_of_languages_and_stops_are_read():
    assert set(multipl_e.LANGUAGES.values()) == set(registry.LANGUAGES)
    (task, record), *_ = pairs("go")
    assert (task.task_id, task.entry_point) == ("Own_0_running_total", "running_total")
    assert task.stop == tuple(record["stop_tokens"])


BAD = {
    "language": ({"language": "lua"}, "line 1, field language: 'lua' is not a language that can be judged: use js, ts"),
    "missing": ({"tests": None}, "line 1, field tests: is missing, give a string"),
    "another type": ({"prompt": 7}, "line 1, field prompt: is a int, give a string"),
    "stops": ({"stop_tokens": ["\n", 3]}, "line 1, field stop_tokens: give a list of non-empty strings"),
    "no function": ({"prompt": "// Nothing.\n"}, "line 1, field prompt: opens no function in JavaScript"),
}


@pytest.mark.parametrize(("change", "sentence"), BAD.values(), ids=BAD)
def test_a_bad_record_is_refused_with_line_and_field(change, sentence):
    with pytest.raises(DatasetError) as refused:
        read_tasks(json.dumps({**FIRST["javascript"], **change}), "m.jsonl")
    assert str(refused.value).startswith(f"m.jsonl, {sentence}")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"task_id": "Python/0"}, "field task_id: HumanEval-X's tasks in Python are HumanEval's"),
        ({"task_id": "Lua/0"}, "field task_id: 'Lua/0' begins with no language that can be judged: use CPP/, Go/"),
        ({"test": ""}, "field test: is empty"),
    ],
)
def test_a_bad_record_of_humaneval_x_is_refused_with_line_and_field(change, sentence):
    with pytest.raises(DatasetError, match=f"h.jsonl, line 1, {sentence}"):
        read_tasks(json.dumps({**FIRST["humaneval_x"], **change}), "h.jsonl")


def test_what_is_not_json_is_refused_with_its_line():
    with pytest.raises(DatasetError, match=r"m.jsonl, line 2 is not JSON"):
        read_tasks(json.dumps(FIRST["go"]) + "\n{name: 1}\n", "m.jsonl")


def test_an_answer_loses_what_the_test_defines_and_keeps_what_the_prompt_brings():
    (task, _), *_ = pairs("humaneval_x")
    answer = "int total(vector<int> numbers){\n  return 1;\n}\n\nint main() {\n  return 0;\n}\n```\n"
    program = extract(task, answer, "chat").program
    assert "using namespace std;" in program
    assert "main" not in program
    with_process = Extractor()
    assert with_process.extract(task, answer, "chat").program == program
    with_process.close()
