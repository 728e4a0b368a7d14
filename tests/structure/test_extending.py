"""docs/extending.md counts the files that an extension touches: one of each kind that exists shows it, and new ones."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.datasets import service as datasets
from app.language_models.service import list_drafters_without_model
from app.runs.schemas import RunSpec
from decoding.drafters import registry as drafters
from decoding.drafters.base import Drafter
from evaluation.datasets import Task
from evaluation.formats import registry as formats
from tests.app.conftest import ctx, engine  # noqa: F401 (fixtures)

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| ([^|]+), (\d) \| ([^|]+) \|$", (ROOT / "docs/extending.md").read_text("utf-8"), re.MULTILINE)
SOURCES = {
    str(file.relative_to(ROOT)): file.read_text("utf-8")
    for folder in ("app", "decoding", "evaluation", "kernels", "migrations")
    for file in (ROOT / folder).rglob("*")
    if file.suffix in (".py", ".html", ".js") and "vendor" not in file.parts
}
EXAMPLES = {  # one of each kind without anything special: a pattern of its name, and files that do not have it
    "kind of background job": (r"DeleteRuns", set()),
    "metric of a run": (r"seconds_per_right", set()),
    "column of samples": (r"extraction_version", set()),
    "page": (r"datasets\.left_out|datasets/left_out\.html", {"app/web/templates/datasets/left_out.html"}),
    "drafter": (r"TrainedDrafter", set()),
    "dataset format": (r"multipl_e", {"evaluation/formats/multipl_e.py"}),
}


def test_the_promised_counts_are_the_documented_ones():
    counts = {kind: int(count) for kind, count, _ in ROWS}
    assert counts == dict(zip(EXAMPLES, (2, 3, 3, 3, 2, 2), strict=True))


@pytest.mark.parametrize(("kind", "count", "files"), ROWS, ids=[kind for kind, _, _ in ROWS])
def test_an_existing_one_is_in_no_more_files_than_documented(kind, count, files):
    pattern, own = EXAMPLES[kind]
    found = {file for file, text in SOURCES.items() if re.search(rf"\b(?:{pattern})\b", text)} | own
    assert len(found) == int(count), found
    first_sentence = files.split(". ")[0]
    assert len(first_sentence.split("; ")) == int(count)
    named = re.findall(r"`((?:app|decoding|evaluation)/[\w/.]+)`", first_sentence)
    assert all((ROOT / file).is_file() for file in named)


def test_a_new_drafter_is_its_class_and_a_line_of_the_registry(monkeypatch):
    class Echo(Drafter):
        pass

    monkeypatch.setattr("decoding.drafters.base.Echo", Echo, raising=False)
    monkeypatch.setitem(drafters.DRAFTERS, "echo", drafters.DrafterEntry("decoding.drafters.base:Echo"))
    assert "echo" in drafters.list_names()
    assert ("echo", "") in list_drafters_without_model()
    spec = drafters.parse_drafter(RunSpec(target="smollm2-135m", dataset="humaneval", drafter="echo").drafter)
    assert isinstance(drafters.make_drafter(spec, None, None, set()), Echo)


def test_a_new_dataset_format_is_its_module_and_a_line_of_the_registry(ctx, monkeypatch):  # noqa: F811
    def read(record):
        return Task(record["riddle"], "def f():\n", "f", "def check(candidate): ...\n", "    return 1\n")

    new = SimpleNamespace(matches=lambda record: "riddle" in record, to_task=read)
    monkeypatch.setattr(formats, "FORMATS", (new, *formats.FORMATS))
    stored = datasets.import_bytes(ctx, b'{"riddle": "r/0"}', "riddles", "riddles.jsonl")
    assert [task.task_id for task in datasets.find_dataset(ctx, stored.id).tasks] == ["r/0"]


# That a new kind of background job is its handler and a line of the registry: tests/app/background/test_jobs.py.
