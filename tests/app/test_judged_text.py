"""A program is judged as it was written, also where the database keeps something else in place of a character."""

from __future__ import annotations

import json

import pytest

from app.core import ports
from app.core.db.storable import restore_original_text
from app.core.db.types import OutputText
from app.jobs.work import grade, prepare
from app.runs import import_samples
from app.runs.repository import load_tasks_with_samples
from app.runs.schemas import ImportSpec
from app.samples.models import Sample
from evaluation.sandbox import Sandbox, SandboxUnavailableError

PROGRAMS = {
    "U+0000 in a comment": ("    return a + b  # \0\n", "syntax_error"),
    "U+0000 in a string": ("    '\0'\n    return a + b\n", "syntax_error"),
    "the symbol that stands for U+0000": ("    return a + b  # \u2400\n", "passed"),
    "a replacement character": ("    return a + b  # \ufffd\n", "passed"),
}


@pytest.fixture
def judged(ctx, additions):
    """Imports each completion as a sample of one task, grades in the real sandbox; returns the samples in order."""
    try:
        Sandbox.detect()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    ctx.make_grader = ports.SandboxGrader

    def judge(completions: list[str]) -> list[Sample]:
        data = "".join(json.dumps({"task_id": "add/0", "completion": c}) + "\n" for c in completions).encode()
        run_id = import_samples.submit_import(
            ctx, ImportSpec(target="elsewhere", dataset=additions), data, "samples.jsonl"
        )
        prepare.prepare_run(ctx, run_id)
        with ctx.database.read() as session:
            jobs = [task.id for task in load_tasks_with_samples(session, run_id)]
        for job in jobs:
            grade.grade_task(ctx, job)
        with ctx.database.read() as session:
            (task,) = load_tasks_with_samples(session, run_id)
            return sorted(task.samples, key=lambda sample: sample.index)

    return judge


def test_an_imported_program_gets_the_verdict_that_it_gets_when_judged_directly(judged, additions, ctx):
    samples = judged([completion for completion, _ in PROGRAMS.values()])
    assert dict(zip(PROGRAMS, [s.verdict for s in samples], strict=True)) == {n: v for n, (_, v) in PROGRAMS.items()}
    assert not any("\0" in (s.program or "") for s in samples)


@pytest.mark.parametrize("text", ["a\0b", "\0\0", "a\u2400", "\u2400\u2400", "\ufffd", "plain", ""])
def test_what_was_stored_is_told_from_what_stands_for_it(text):
    stored = OutputText().process_bind_param(text, None)
    assert "\0" not in stored
    assert restore_original_text(stored) == text


def test_a_lone_surrogate_can_be_stored_and_stays_one():
    stored = OutputText().process_bind_param("a\udfffb", None)
    assert stored.encode()
    assert restore_original_text(stored) == "a\ud800b"
