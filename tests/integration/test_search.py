"""On each database: the search finds what samples hold, newest first, and nothing that lists hide."""

from __future__ import annotations

import uuid

import pytest

from app.core.context import Context
from app.core.db.ids import new_id
from app.core.errors import BadInputError
from app.core.states import DatasetKind, RunKind, RunState, TaskState
from app.datasets import service as datasets
from app.runs import service
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.search import service as searching
from app.search.schemas import SearchQuery
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT


@pytest.fixture(autouse=True)
def _dataset(ctx):
    task = Task("add/0", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT)
    datasets.store(ctx, Dataset("additions", (task,), "f" * 64), DatasetKind.IMPORTED)


def search(ctx: Context, q: str, **values) -> list[tuple[str, int]]:
    """(run, sample) of what is found."""
    with ctx.database.read() as session:
        found = searching.search(session, SearchQuery(q=q, **values))
    return [(hit.run, hit.index) for hit in found.samples]


def write(ctx, name: str, *raws: str, kind: RunKind = RunKind.EVAL, **columns) -> uuid.UUID:
    """An ended run with one task that has these samples."""
    with ctx.database.session() as session:
        dataset = datasets.require(ctx, "additions")
        run = Run(
            name=name, kind=kind, state=RunState.FINISHED, dataset_id=dataset.id, target="smollm2-135m",
            drafter="none", draft_length="goodput", acceptance="coupled", dtype="auto", device="auto", n=len(raws),
            budget_s=5, temperature=0, top_p=1, seed=0, max_tokens=9, prompt_mode="raw", n_tasks=1,
        )  # fmt: skip
        session.add(run)
        session.flush()
        row = RunTask(run_id=run.id, task_pk=dataset.tasks[0].id, position=0, state=TaskState.FINISHED)
        session.add(row)
        session.flush()
        for index, raw in enumerate(raws):
            values = {"finish_reason": "stop", "finished_s": 1.0, "verdict": "passed", **columns}
            session.add(
                Sample(
                    run_id=run.id, run_task_id=row.id, index=index, seed=0, raw=raw, n_tokens=1, n_rounds=1,
                    n_drafted=0, n_accepted=0, token_ids=[], logprobs=[], origins="", **values,
                )
            )  # fmt: skip
            session.flush()  # one after the other: their ids are in this order
        return run.id


CODE = (
    "def list_runs(session):\n    return foo.bar(x[0]) + x[-1]\n",
    'for i in range(10):\n\tif a<b and c->d: print("it\'s 100%")\n',
    "raise IndexError('list index out of range')\\n",
    "größe = 'naïve' \u202e",
)
FOUND = {
    "list_runs": [0],
    "LIST": [0, 2],
    "x[0]": [0],
    "x[1]": [],
    "for i in range": [1],
    "range in": [],
    "100%": [1],
    "00%": [1],
    "a_b": [],
    "it's": [1],
    "')\\": [2],
    "größe": [3],
    "unicode": [],
}
"""Which texts of CODE a query finds, on both databases."""


def test_both_databases_find_the_same_in_code(ctx):
    for number, raw in enumerate(CODE):
        write(ctx, str(number), raw)
    assert {q: sorted(int(name) for name, _ in search(ctx, q)) for q in FOUND} == FOUND


def test_a_sample_is_found_by_its_program_its_error_and_the_assertion_that_failed(ctx):
    faults = {"program": "prompt and answer", "verdict_detail": "KeyError: 'x'", "failing_assert": "assert f(1) == 2"}
    run_id = write(ctx, "one", "answer", verdict="exception", **faults)
    for text in ("prompt and", "keyerror", "f(1) =="):
        assert search(ctx, text) == [("one", 0)]
    service.delete(ctx, run_id)
    assert search(ctx, "keyerror") == []


def test_what_lists_hide_is_not_found(ctx):
    """A completion belongs to the holders of its address, and so do its samples."""
    for kind in RunKind:
        write(ctx, kind, "secret_word", kind=kind)
    assert {name for name, _ in search(ctx, "secret_word")} == {"eval", "imported"}


def test_a_run_can_be_searched_alone(ctx):
    first, _ = write(ctx, "first", "needle"), write(ctx, "second", "needle")
    assert search(ctx, "needle", run=first) == [("first", 0)]
    assert search(ctx, "needle", run=new_id()) == []


def test_pages_leave_nothing_out_and_repeat_nothing(ctx, monkeypatch):
    for number in range(5):
        write(ctx, f"run {number}", *(["needle"] * 3 + ["hay"]))
    whole = search(ctx, "needle")
    assert [name for name, index in whole if index == 0] == [f"run {n}" for n in (4, 3, 2, 1, 0)]
    for limit, looked_at in ((1, 1), (2, 3), (4, 20), (15, 1000)):
        monkeypatch.setattr(searching, "LOOKED_AT", looked_at)
        pages, following, looks = [], None, 0
        while looks == 0 or following:
            with ctx.database.read() as session:
                found = searching.search(session, SearchQuery(q="needle", limit=limit, cursor=following))
            pages += [(hit.run, hit.index) for hit in found.samples]
            following, looks = found.next, looks + 1
        assert pages == whole, limit
        assert looks >= 20 / looked_at


def test_a_cursor_that_is_none_is_refused(ctx):
    for cursor in ("x", "1", "1.2"):
        with pytest.raises(BadInputError, match="cursor is"):
            search(ctx, "needle", cursor=cursor)
