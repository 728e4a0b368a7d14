"""Tasks in other languages through the service: import, runs, pages, REST, commands; and what bad input gets."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select

from app.core.errors import UnavailableError
from app.core.ports import SandboxGrader
from app.datasets import service
from app.doctor import machine
from app.runs.models import Run
from app.runs.service import submit
from app.samples.models import Sample
from app.site.factory import create_app
from evaluation import dataset_files
from evaluation.languages import registry
from evaluation.languages.base import Toolchain, ToolchainError
from tests.fakes import RIGHT

ROW = {
    "task_id": "add/0",
    "language": "javascript",
    "prompt": "/** The sum. */\nfunction add(a, b) {\n",
    "signature": {
        "name": "add",
        "parameters": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}],
        "returns": "int",
    },
    "cases": [{"args": ["1", "2"], "result": "3"}, {"args": ["9007199254740991", "0"], "result": "9007199254740991"}],
}


def needs(name):
    try:
        registry.load_language(name).toolchain.find()
    except ToolchainError as error:
        pytest.skip(f"{name} is not tested: {error}")


@pytest.fixture
def stored(ctx):
    return service.import_bytes(ctx, json.dumps(ROW).encode(), "js", "js.jsonl")


@pytest.fixture(autouse=True)
def real_sandbox(ctx):
    ctx.make_grader = SandboxGrader


@pytest.fixture
def no_node(monkeypatch):
    def find():
        raise ToolchainError("there is none")

    # TypeScript takes JavaScript's when it is first loaded, and would keep this one.
    toolchains = [registry.load_language(name).toolchain for name in ("typescript", "javascript")]
    for toolchain in toolchains:
        monkeypatch.setattr(toolchain, "find", find)


def test_a_stored_task_keeps_signature_and_cases_and_writes_the_same_file(ctx, stored):
    task = service.to_evaluation_task(service.require_dataset(ctx, "js").tasks[0])
    (back,), _ = dataset_files.read_tasks(dataset_files.write_dataset([task]).decode(), "back")
    assert back == task
    assert task.signature.to_json() == ROW["signature"]
    assert [case.to_json() for case in task.cases] == ROW["cases"]


def test_python_tasks_are_written_as_before():
    tasks = dataset_files.load_bundled_dataset("humaneval").tasks[:3]
    fields = {"task_id", "prompt", "entry_point", "test", "canonical_solution"}
    assert [set(json.loads(line)) for line in dataset_files.write_dataset(tasks).splitlines()] == [fields] * 3


def test_a_run_is_judged_by_cases_and_names_its_toolchain(ctx, stored, bassline):
    needs("javascript")
    words = ("--target", "smollm2-135m", "--dataset", "js", "--n", "2", "--budget", "5", "--name", "js")
    result = bassline("eval", *words, "--json", "-")
    assert result.exit_code == 0, result.output
    with ctx.database.read() as session:
        run = session.scalars(select(Run)).one()
        samples = session.scalars(select(Sample).order_by(Sample.index)).all()
    assert [sample.verdict for sample in samples] == ["passed", "wrong_answer"]
    assert samples[1].failing_assert == 'add("1", "2")'
    assert run.provenance["toolchain"].startswith("node ")
    page = create_app(ctx).test_client().get(f"/runs/{run.id}/tasks/add/0").get_data(as_text=True)
    assert "Cases" in page
    assert "add(&#34;1&#34;, &#34;2&#34;) → &#34;3&#34;" in page


def test_a_run_without_its_toolchain_is_refused_before_it_is_stored(ctx, stored, spec, no_node):
    with pytest.raises(
        UnavailableError, match=r"JavaScript cannot be judged .* run `pip install 'bassline\[javascript\]'`"
    ):
        submit(ctx, spec(dataset="js"))
    with ctx.database.read() as session:
        assert session.scalars(select(Run)).all() == []


def test_doctor_names_what_is_there_and_the_command_that_installs_the_rest(no_node, monkeypatch):
    for name in registry.LANGUAGES.keys() - {"javascript"}:  # the test of the whole command finds the real ones
        monkeypatch.setattr(
            registry.load_language(name).toolchain, "find", lambda name=name: Toolchain(f"{name} 1", None)
        )
    found = {each["name"]: each for each in machine.list_languages()}
    assert set(found) == {"python", *registry.LANGUAGES}
    assert (found["rust"]["available"], found["rust"]["version"]) == (True, "rust 1")
    javascript = found["javascript"]
    assert (javascript["available"], javascript["version"]) == (False, None)
    assert javascript["install"] == "pip install 'bassline[javascript]'"
    (finding,) = [each for each in machine.check_languages() if each.part == "language javascript"]
    assert (finding.status, finding.what) == ("warn", "there is none")


def test_rest_and_page_show_a_task_with_its_cases(ctx, stored):
    client = create_app(ctx).test_client()
    (task,) = client.get(f"/api/v1/datasets/{stored.id}").get_json()["tasks"]
    assert (task["language"], task["signature"], task["cases"]) == ("javascript", ROW["signature"], ROW["cases"])
    page = client.get(f"/datasets/{stored.id}?task=add/0").get_data(as_text=True)
    assert '<span class="kd">function</span>' in page  # in the colours of JavaScript
    assert "Cases" in page


def test_sandbox_run_judges_one_program(bassline, tmp_path):
    needs("javascript")
    task, program = tmp_path / "task.json", tmp_path / "answer.js"
    task.write_text(json.dumps({name: ROW[name] for name in ("signature", "cases")}))
    words = (
        "sandbox",
        "run",
        "--language",
        "javascript",
        "--task",
        str(task),
        "--program",
        str(program),
        "--json",
        "-",
    )
    program.write_text("const add = (a, b) => a + b;")
    passed = bassline(*words)
    verdict = json.loads(passed.stdout)
    assert (passed.exit_code, verdict["status"], verdict["passed"], verdict["cases"]) == (0, "passed", True, 2)
    program.write_text("const add = (a, b) => a - b;")
    failed = bassline(*words)
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["status"] == "wrong_answer"


def test_sandbox_run_says_what_is_wrong_with_a_task(bassline, tmp_path):
    task = tmp_path / "task.json"
    task.write_text(json.dumps({**ROW, "cases": [{"args": ["1"], "result": "3"}]}))
    words = ("sandbox", "run", "--language", "javascript", "--task", str(task), "--program", str(task))
    refused = bassline(*words)
    assert refused.exit_code == 2
    assert "cases[0].args: add takes 2 arguments, the case has 1" in refused.output


def test_translate_stores_a_dataset_and_reports_what_was_left_out(ctx, bassline, tmp_path):
    needs("javascript")
    rows = [
        {"task_id": "t/0", "prompt": 'def add(a: int, b: int):\n    """Sum."""\n', "entry_point": "add",
         "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n", "canonical_solution": RIGHT},
        {"task_id": "t/1", "prompt": "def any_of(a):\n", "entry_point": "any_of",
         "test": "def check(candidate):\n    candidate(1), candidate('x')\n", "canonical_solution": "    return a\n"},
    ]  # fmt: skip
    service.import_bytes(ctx, "\n".join(map(json.dumps, rows)).encode(), "py", "py.jsonl")
    result = bassline("datasets", "translate", "py", "--to", "javascript", "--name", "py-js", "--json", "-")
    document = json.loads(result.stdout)
    assert (document["tasks"], document["oracle_passed"], document["oracle_failed"]) == (1, 1, 0)
    assert document["left_out"] == {"values of several types (Union, Any)": ["t/1"]}
    stored = service.require_dataset(ctx, "py-js")
    assert (stored.n_tasks, stored.n_left_out, stored.tasks[0].language) == (1, 1, "javascript")


def test_completion_offers_the_language_and_refuses_a_test_in_it(ctx):
    client = create_app(ctx).test_client()
    assert '<option value="javascript">JavaScript</option>' in client.get("/complete").get_data(as_text=True)
    body = {
        "target": "smollm2-135m",
        "prompt": "function add(a, b) {\n",
        "language": "javascript",
        "test": "assert True",
    }
    refused = client.post("/api/v1/complete", json=body)
    assert refused.status_code == 422
    assert "test judges Python only" in refused.get_data(as_text=True)


def test_a_dataset_whose_program_decides_says_in_guest_on_pages_and_in_rest(ctx):
    row = {
        "name": "HumanEval_53_add",
        "language": "js",
        "prompt": "//Add.\nfunction add(a, b){\n",
        "tests": "require('node:assert').deepEqual(add(1, 2), 3);\n",
        "stop_tokens": ["\nfunction "],
    }
    stored = service.import_bytes(ctx, json.dumps(row).encode(), "mpe", "mpe.jsonl")
    client = create_app(ctx).test_client()
    (task,) = client.get(f"/api/v1/datasets/{stored.id}").get_json()["tasks"]
    assert (task["language"], task["entry_point"], task["source"]["trust"]) == ("javascript", "add", "in-guest")
    for address in (f"/datasets/{stored.id}", f"/datasets/{stored.id}?task=HumanEval_53_add"):
        assert "Results could be forged." in client.get(address).get_data(as_text=True)
    assert service.to_evaluation_task(service.require_dataset(ctx, "mpe").tasks[0]).language == "javascript"


def test_sandbox_run_writes_the_verdict_on_a_python_program_as_json(bassline, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("print(1)\n")
    verdict = json.loads(bassline("sandbox", "run", str(program), "--json", "-").stdout)
    assert (verdict["status"], verdict["passed"], verdict["language"]) == ("passed", True, "python")
    written = bassline("sandbox", "run", str(program), "--json", str(tmp_path / "verdict.json"))
    assert (written.stdout[:5], json.loads((tmp_path / "verdict.json").read_text())["passed"]) == ("done ", True)
