"""Lists of runs: filtered alike on both databases, page by page without a gap or a repetition."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import insert, select

from app.core.errors import BadInputError, NotFoundError
from app.core.states import DatasetKind
from app.datasets import service as datasets
from app.runs import service
from app.runs.models import Run
from app.runs.repository import RunFilter, find_run, list_runs
from app.runs.schemas import RunSpec
from evaluation.datasets import Dataset, Task
from tests.fakes import RIGHT

pytestmark = pytest.mark.slow

NAMES = ["beta", "Alpha", "100%_sure", "alpha", "Gamma [x]"]


@pytest.fixture(autouse=True)
def _runs(ctx):
    """A run of each name, one after the other."""
    task = Task("add/0", "def add(a, b):\n", "add", "def check(candidate): ...", RIGHT)
    datasets.store_dataset(ctx, Dataset("additions", (task,), "f" * 64), DatasetKind.IMPORTED)
    for name in NAMES:
        service.submit(ctx, RunSpec(target="smollm2-135m", dataset="additions", name=name))


def names(ctx, **filters) -> list[str]:
    with ctx.database.read() as session:
        return [run.name for run in list_runs(session, RunFilter(**filters))]


def test_pages_leave_nothing_out_and_repeat_nothing(ctx):
    whole, before = [], None
    with ctx.database.read() as session:
        while page := list_runs(session, limit=2, before=before):
            whole += [run.name for run in page]
            before = page[-1].id
    assert whole == names(ctx) == NAMES[::-1]


def test_a_name_is_found_by_a_part_of_it_to_the_letter(ctx):
    assert names(ctx, name="ALPHA") == ["alpha", "Alpha"]
    assert names(ctx, name="%_") == ["100%_sure"]
    assert names(ctx, name="_") == ["100%_sure"]
    assert names(ctx, name="[x]") == ["Gamma [x]"]


@pytest.fixture
def alike(ctx) -> list[uuid.UUID]:
    """Three more runs, named after their ids; the ids of the first two differ in the last digit."""
    ids = [
        uuid.UUID(f"{text}-7000-8000-0123456789a{i}")
        for i, text in enumerate(("0abc0000-bbbb",) * 2 + ("0abd0000-bbbb",))
    ]
    with ctx.database.session() as session:
        like = session.scalars(select(Run).limit(1)).one()
        columns = {column.key: getattr(like, column.key) for column in Run.__table__.columns}
        session.execute(insert(Run), [columns | {"id": run_id, "name": str(run_id)[::-1]} for run_id in ids])
    return ids


def found(ctx, reference: str) -> uuid.UUID:
    with ctx.database.read() as session:
        return find_run(session, reference).id


def test_a_run_is_found_by_its_id_the_beginning_of_one_or_its_name(ctx, alike):
    first, second, third = alike
    assert found(ctx, str(first)) == first
    assert found(ctx, second.hex.upper()) == second
    for beginning in ("0abd", "0ABD00", "0abd0000-", "0abd0000-bbbb-7000-8000-0123456789a"):
        assert found(ctx, beginning) == third
    with ctx.database.session() as session:
        session.get_one(Run, third).name = "0abc"
    assert found(ctx, "0abc") == third  # a name goes before the beginning of an id


def test_a_beginning_of_several_ids_is_refused_with_their_number(ctx, alike):
    for beginning in ("0abc", "0abc0000-bbbb-7000"):
        with pytest.raises(BadInputError, match=f"{beginning!r} is the beginning of 2 ids: give more of it"):
            found(ctx, beginning)


@pytest.mark.parametrize(
    "reference", ["0ab", "0abd-0000", "0abg", "", "Alphq", "%", "0abd0000-bbbb-7000-8000-0123456789a2f"]
)
def test_what_names_no_run_is_refused_with_the_nearest_name(ctx, alike, reference):
    with pytest.raises(NotFoundError, match="did you mean (A|a)lpha" if reference == "Alphq" else "there is no run"):
        found(ctx, reference)
