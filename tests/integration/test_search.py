"""On each database: the search index follows the samples through every change, and both databases find the same."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

import pytest
from sqlalchemy import func, insert, select, text, update

from app.core.context import Context
from app.core.db import migrate
from app.core.db.ids import new_id
from app.core.errors import BadInputError
from app.core.states import DatasetKind, RunKind, RunState, TaskState
from app.datasets import service as datasets
from app.jobs.work import grade, prepare
from app.jobs.work.decode import decode_task
from app.runs import import_samples, indexing, service, transitions
from app.runs.index_models import TaskWords
from app.runs.models import Run, RunTask
from app.runs.schemas import ImportSpec, RunSpec
from app.samples.models import Sample
from app.search import service as searching
from app.search.schemas import SearchQuery
from app.studies import archive, loading
from app.studies import service as studies
from app.studies.repository import get_study
from app.studies.schemas import StudySpec
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT, FakeGrader

N_TASKS = 3


@pytest.fixture(autouse=True)
def _dataset(ctx):
    tasks = tuple(
        Task(f"add/{i}", f"def add(a, b):\n    # task_{i}\n", "add", "def check(candidate): ...", RIGHT)
        for i in range(N_TASKS)
    )
    datasets.store(ctx, Dataset("additions", tasks, "f" * 64), DatasetKind.IMPORTED)


@pytest.fixture(autouse=True)
def _whole_index(ctx):
    """At the end of each test the index holds exactly the words of the rows."""
    yield
    if ctx.database.is_sqlite:
        with ctx.database.session() as session:
            check = f"INSERT INTO {migrate.SEARCH_INDEX} ({migrate.SEARCH_INDEX}, rank) VALUES ('integrity-check', 1)"
            session.execute(text(check))


def search(ctx: Context, q: str = "", **filters) -> list[tuple[str, str, int]]:
    """(run, task, sample) of what is found."""
    with ctx.database.read() as session:
        found = searching.search(session, SearchQuery(q=q, **filters))
    return [(hit.run_name, hit.task_id, hit.index) for hit in found.hits]


def submitted(ctx, name="one", **changes) -> uuid.UUID:
    run_id = service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", n=2, name=name, **changes))
    prepare.prepare_run(ctx, run_id)
    return run_id


def job_ids(ctx, run_id) -> list[uuid.UUID]:
    with ctx.database.read() as session:
        return list(session.scalars(select(RunTask.id).where(RunTask.run_id == run_id).order_by(RunTask.position)))


def work(ctx, run_id) -> None:
    for job_id in job_ids(ctx, run_id):
        decode_task(ctx, job_id)
        grade.grade_task(ctx, job_id)


def n_rows(ctx) -> int:
    with ctx.database.read() as session:
        return session.scalar(select(func.count()).select_from(TaskWords)) or 0


def write(
    ctx, name: str, *raws: str, kind: RunKind = RunKind.EVAL, target: str = "smollm2-135m", **columns
) -> uuid.UUID:
    """An ended run with one task that has these samples."""
    with ctx.database.session() as session:
        dataset = datasets.require(ctx, "additions")
        run = Run(
            name=name, kind=kind, state=RunState.FINISHED, dataset_id=dataset.id, target=target, drafter="none",
            draft_length="goodput", acceptance="coupled", dtype="auto", device="auto", n=len(raws), budget_s=5,
            temperature=0, top_p=1, seed=0, max_tokens=9, prompt_mode="raw", n_tasks=1,
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
        session.flush()
        indexing.store(session, run, [row.id])
        return run.id


CODE = (
    "def list_runs(session):\n    return foo.bar(x[0]) + x[-1]\n",
    'for i in range(10):\n\tif a<b and c->d: print("it\'s 100%")\n',
    "raise IndexError('list index out of range')  # IndexError: LIST",
    "größe = 'Ünïcödé' \u202e + '\u0627\u0644'  # İstanbul  naïve ﬁ",
    '<script>alert(1)</script> & "AND" NOT OR NEAR *',
)


FOUND = {
    "list_runs": [0],
    "LIST_RUNS": [0],
    "list": [2],
    "runs": [],
    "foo.bar(": [0],
    "bar.foo": [],
    "x[0]": [0],
    "x[1]": [],
    '"for i in range"': [1],
    '"range in i for"': [],
    "range for": [1],
    "a<b": [1],
    "100%": [1],
    "it's": [1],
    "it''s": [],
    '"list index out of range"': [2],
    "größe": [3],
    "GRÖßE": [3],
    "ünïcödé": [3],
    "unicode": [],
    "naïve": [3],
    "istanbul": [],
    "İSTANBUL": [3],
    "ال": [3],
    "<script>alert(1)</script>": [4],
    "AND": [1, 4],
    "NOT": [4],
    "not OR near": [4],
    "words:list": [],
    "li*": [],
    "{words} : list": [],
    "list & !runs": [],
    "'list'": [],
    "\\ list": [],
}
"""Which texts of CODE a query finds, on both databases."""


def test_both_databases_find_the_same_in_code(ctx):
    for number, raw in enumerate(CODE):
        write(ctx, str(number), raw)
    assert {q: sorted(int(name) for name, _, _ in search(ctx, q)) for q in FOUND} == FOUND


def test_samples_are_found_from_the_moment_they_are_stored_and_their_errors_once_they_are_judged(ctx):
    class Explaining(FakeGrader):
        def judge_many(self, items, workers):
            for position, verdict in super().judge_many(items, workers):
                yield position, verdict if verdict.passed else replace(verdict, detail="ValueError: no sum")

    ctx.make_grader = Explaining
    run_id = submitted(ctx)
    first, *_ = job_ids(ctx, run_id)
    assert search(ctx, "return") == []
    decode_task(ctx, first)
    assert search(ctx, '"return a - b"') == [("one", "add/0", 1)]
    assert search(ctx, "task_0") == [], "the prompt is not part of what the model wrote"
    assert search(ctx, "return", verdict="passed") == []
    grade.grade_task(ctx, first)
    assert search(ctx, "task_0") == [("one", "add/0", 0), ("one", "add/0", 1)]
    assert search(ctx, '"ValueError: no sum"') == [("one", "add/0", 1)]
    assert search(ctx, "return", verdict="passed") == [("one", "add/0", 0)]
    assert n_rows(ctx) == 1


def test_a_worker_stores_the_words_that_would_be_read_from_the_database(ctx):
    class Odd(FakeGrader):
        def judge_many(self, items, workers):
            for position, verdict in super().judge_many(items, workers):
                texts = {
                    "detail": "a \0 b\ud800c",
                    "traceback": "t\r\nu",
                    "got": "g",
                    "expected": "",
                    "failing_assert": "f",
                }
                yield position, replace(verdict, **texts)

    generate = ctx.load_engine(None, None).generate

    def odd(*args):
        done = generate(*args)
        for sample in done.samples:
            sample.text += f"# x\0y \ud800z\x85w\u2028v {sample.index}\n"
        return done

    def stored():
        with ctx.database.read() as session:
            return session.scalars(select(TaskWords.words)).all()

    ctx.load_engine(None, None).generate, ctx.make_grader = odd, Odd
    run_id = submitted(ctx)
    first, *_ = job_ids(ctx, run_id)
    for step in (decode_task, grade.grade_task):
        step(ctx, first)
        by_worker = stored()
        with ctx.database.session() as session:
            indexing.store(session, session.get_one(Run, run_id), [first])
        assert stored() == by_worker, step


def test_a_deleted_run_leaves_nothing_in_the_index(ctx):
    run_id = submitted(ctx)
    work(ctx, run_id)
    assert n_rows(ctx) == N_TASKS
    service.delete(ctx, run_id)
    assert n_rows(ctx) == 0
    assert search(ctx, "return") == []


def test_samples_that_a_resume_deletes_are_not_found_until_they_are_decoded_again(ctx):
    run_id = submitted(ctx)
    first, second, _ = job_ids(ctx, run_id)
    for job_id in (first, second):
        decode_task(ctx, job_id)
    with ctx.database.session() as session:
        session.execute(update(RunTask).where(RunTask.id == second).values(state=TaskState.CANCELLED))
        # Cancelled while it was decoded: samples that are whole are only graded.
        session.execute(update(Sample).where(Sample.run_task_id == second).values(finish_reason="cancelled"))
    transitions.interrupt(ctx, run_id)
    service.resume(ctx, run_id)
    assert {task for _, task, _ in search(ctx, "return")} == {"add/0"}
    prepare.prepare_run(ctx, run_id)
    work(ctx, run_id)
    assert {task for _, task, _ in search(ctx, "return")} == {"add/0", "add/1", "add/2"}
    assert n_rows(ctx) == N_TASKS


def test_imported_samples_are_found_at_once(ctx, tmp_path):
    lines = [json.dumps({"task_id": f"add/{i}", "completion": f"    return imported_{i}\n"}) for i in range(N_TASKS)]
    spec = ImportSpec(target="elsewhere", dataset="additions", name="there")
    import_samples.submit(ctx, spec, "\n".join(lines).encode(), "samples.jsonl")
    assert search(ctx, "imported_1") == [("there", "add/1", 0)]


def test_samples_of_a_loaded_study_are_found(ctx):
    spec = {"dataset": "additions", "arms": [{"target": "smollm2-135m", "n": n} for n in (1, 2)]}
    study_id = studies.submit(ctx, StudySpec.model_validate(spec))
    with ctx.database.read() as session:
        run_ids = [run.id for run in get_study(session, study_id).runs]
    for run_id in run_ids:
        prepare.prepare_run(ctx, run_id)
    for _ in range(N_TASKS):
        for run_id in run_ids:
            work(ctx, run_id)
    before = search(ctx, "return")
    assert len(before) == N_TASKS * 3
    with ctx.database.read() as session:
        written = b"".join(archive.write(ctx.database, get_study(session, study_id)))
    studies.delete(ctx, study_id)
    assert search(ctx, "return") == []
    loading.load(ctx, written, "study.json.gz")
    assert sorted(task for _, task, _ in search(ctx, "return")) == sorted(task for _, task, _ in before)


def test_what_lists_hide_is_not_found(ctx):
    """A completion belongs to the holders of its address, and so do its samples."""
    for kind in RunKind:
        write(ctx, kind, "secret_word", kind=kind)
    assert {name for name, _, _ in search(ctx, "secret_word")} == {"eval", "imported"}
    with ctx.database.session() as session:  # an index row that should not be there reveals nothing either
        hidden = select(RunTask).join(Run).where(Run.kind == RunKind.COMPLETION)
        row = session.scalars(hidden).one()
        session.execute(insert(TaskWords), [{"run_task_id": row.id, "run_id": row.run_id, "words": ["secret_word"]}])
    assert {name for name, _, _ in search(ctx, "secret_word")} == {"eval", "imported"}


def test_each_filter_leaves_what_fulfils_it(ctx):
    write(ctx, "nightly 100%", "alike", target="a", verdict="exception", verdict_detail="NameError: name 'x'")
    write(ctx, "weekly", "alike", target="b", verdict="exception", verdict_detail="KeyError: 'x'")
    cut = write(ctx, "cut", "alike", target="b", verdict="syntax_error", finish_reason="deadline")
    for filters, found in [
        ({"target": "a"}, ["nightly 100%"]),
        ({"target": "c"}, []),
        ({"run": "NIGHT"}, ["nightly 100%"]),
        ({"run": "%"}, ["nightly 100%"]),
        ({"run": str(cut)}, ["cut"]),
        ({"run": cut.hex[:20]}, ["cut"]),
        ({"run": str(new_id())}, []),
        ({"dataset": "additions"}, ["cut", "weekly", "nightly 100%"]),
        ({"dataset": "humaneval"}, []),
        ({"task_id": "add/0"}, ["cut", "weekly", "nightly 100%"]),
        ({"task_id": "add/1"}, []),
        ({"verdict": "exception"}, ["weekly", "nightly 100%"]),
        ({"verdict": "syntax_error"}, ["cut"]),
        ({"failure": "name_or_import"}, ["nightly 100%"]),
        ({"failure": "exception"}, ["weekly"]),
        ({"failure": "not_finished"}, ["cut"]),
        ({"failure": "syntax"}, []),
        ({"failure": "exception", "target": "b", "run": "week"}, ["weekly"]),
    ]:
        assert [name for name, _, _ in search(ctx, "alike", **filters)] == found, filters
        assert [name for name, _, _ in search(ctx, **filters)] == found, f"without words: {filters}"


def test_pages_leave_nothing_out_and_repeat_nothing(ctx):
    for number in range(5):
        write(ctx, f"run {number}", *(["needle"] * 3 + ["hay"]))
    whole = search(ctx, "needle")
    assert [name for name, _, index in whole if index == 0] == [f"run {n}" for n in (4, 3, 2, 1, 0)]
    for limit in (1, 2, 3, 4, 15):
        pages, following = [], None
        while True:
            with ctx.database.read() as session:
                found = searching.search(session, SearchQuery(q="needle", limit=limit, cursor=following))
            pages += [(hit.run_name, hit.task_id, hit.index) for hit in found.hits]
            following = found.next
            if following is None:
                break
        assert pages == whole, limit


def test_a_page_looks_at_a_limited_number_of_tasks_and_the_next_one_goes_on(ctx, monkeypatch):
    monkeypatch.setattr(searching, "LOOKED_AT", 2)
    write(ctx, "old", "in range")
    for number in range(5):
        write(ctx, f"new {number}", "range in")
    found, following, looks = [], None, 0
    while looks == 0 or following:
        with ctx.database.read() as session:
            page = searching.search(session, SearchQuery(q='"in range"', cursor=following))
        found += [hit.run_name for hit in page.hits]
        following, looks = page.next, looks + 1
    assert (found, looks) == (["old"], 3)


def test_a_sample_with_more_words_than_an_index_holds_is_stored_and_found(ctx):
    texts = [" ".join(f"wörd_{sample}_{i}" for i in range(30_000)) + " " + "y" * 300_000 for sample in range(20)]
    write(ctx, "huge", *texts)
    assert search(ctx, "wörd_0_7") == [("huge", "add/0", 0)]
    assert search(ctx, "wörd_0_29999") == [], "past the part of a text that is searched"
    write(ctx, "long", "z" * 5000)
    assert search(ctx, "z" * 900) == []
    assert search(ctx, '"' + "z" * 900 + '"') == []


@pytest.mark.parametrize("q", ["", "   ", "->", '"open', "§verdict_passed !"])
def test_a_query_that_can_find_nothing_says_so(ctx, q):
    if q.startswith("§"):
        assert search(ctx, q) == []
        return
    with pytest.raises(BadInputError, match=r"^q (is|has)"):
        search(ctx, q)


def test_a_cursor_that_is_none_is_refused_or_finds_nothing(ctx):
    write(ctx, "one", "needle")
    for cursor_ in ("x", "1", "1.2.3", "-1.0", "1." + "9" * 10, "9" * 19 + ".0", "١.٢"):
        with pytest.raises(BadInputError, match="cursor is"):
            search(ctx, "needle", cursor=cursor_)
    assert search(ctx, "needle", cursor="0.0") == []
    assert search(ctx, "needle", cursor="9" * 18 + "." + "9" * 9) == [("one", "add/0", 0)]


def test_grading_again_counts_on_no_verdict_of_before(ctx):
    ctx.make_grader = FakeGrader
    run_id = submitted(ctx)
    work(ctx, run_id)
    passed = search(ctx, verdict="passed")
    with ctx.database.session() as session:
        row_ids = job_ids(ctx, run_id)
        session.execute(update(Sample).where(Sample.run_task_id.in_(row_ids)).values(verdict="timeout"))
        indexing.store(session, session.get_one(Run, run_id), row_ids)
    assert search(ctx, verdict="passed") == []
    assert len(search(ctx, verdict="timeout")) == 2 * N_TASKS
    assert passed
