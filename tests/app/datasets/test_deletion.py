"""Datasets are deleted with what only they need, from the page, REST and the command line, and never under a run."""

from __future__ import annotations

import uuid

import pytest
from sqlalchemy import func, select

from app.accounts.service import create_token
from app.core.db.archives import read_project_archive, store_project_archives
from app.core.errors import ConflictError, NotFoundError
from app.core.states import DatasetKind, Scope
from app.datasets import service
from app.datasets.models import Dataset, DatasetCheck, Task
from app.datasets.service import delete_dataset
from app.site.factory import create_app
from evaluation import datasets as evaluation_datasets

SHARED, OWN = "a" * 64, "b" * 64


def store_dataset(ctx, name: str, project: str | None = None) -> uuid.UUID:
    tests = None
    if project:
        tests = {"project": project, "installed": SHARED, "file": "m.py", "qualified": "f", "line": 1, "tests": ["t"]}
    task = evaluation_datasets.Task(f"{name}/0", "def f():\n", "f", "", "    pass\n", project_tests=tests)
    return service.store_dataset(
        ctx, evaluation_datasets.Dataset(name, (task,), uuid.uuid4().hex * 2), DatasetKind.IMPORTED
    ).id


def count(ctx, table) -> int:
    with ctx.database.read() as session:
        return session.scalar(select(func.count()).select_from(table))


def test_a_dataset_goes_with_its_tasks_checks_and_the_archives_that_no_other_one_needs(ctx):
    store_project_archives(ctx.database, {OWN: b"project", SHARED: b"packages"})
    mine, _other = store_dataset(ctx, "mine", OWN), store_dataset(ctx, "other", SHARED)
    with ctx.database.session() as session:
        session.add(DatasetCheck(dataset_id=mine, sandbox="bwrap", failed=[]))
    delete_dataset(ctx, mine)
    assert [count(ctx, table) for table in (Dataset, Task, DatasetCheck)] == [1, 1, 0]
    assert read_project_archive(ctx.database, OWN) is None
    assert read_project_archive(ctx.database, SHARED) == b"packages"
    with pytest.raises(NotFoundError, match=str(mine)):
        delete_dataset(ctx, mine)


def test_a_dataset_under_runs_and_studies_stays_and_says_what_uses_it(world):
    world.add_run("one")
    world.add_run("two")
    with pytest.raises(ConflictError, match="humaneval is used by 2 runs: delete them first"):
        delete_dataset(world.context, world.humaneval.id)
    assert service.find_dataset(world.context, world.humaneval.id).n_tasks == 164


def test_the_page_and_rest_delete_for_an_admin_alone(ctx):
    ctx.settings = ctx.settings.model_copy(update={"require_tokens": True})
    app = create_app(ctx)
    app.config["WTF_CSRF_ENABLED"] = False
    client = app.test_client()
    bearer = {
        scope: {"Authorization": f"Bearer {create_token(ctx, scope, scope)}"} for scope in (Scope.SUBMIT, Scope.ADMIN)
    }
    rest, page = store_dataset(ctx, "rest"), store_dataset(ctx, "page")
    for scope, statuses in ((Scope.SUBMIT, (403, 403)), (Scope.ADMIN, (204, 303))):
        headers = bearer[scope]
        button = "Delete the dataset" in client.get(f"/datasets/{page}", headers=headers).text
        assert button is (scope is Scope.ADMIN)
        answers = (
            client.delete(f"/api/v1/datasets/{rest}", headers=headers),
            client.post(f"/datasets/{page}/delete", headers=headers),
        )
        assert tuple(answer.status_code for answer in answers) == statuses
    assert count(ctx, Dataset) == 0


def test_the_page_says_why_a_used_dataset_stays(world):
    world.app.config["WTF_CSRF_ENABLED"] = False
    world.add_run("one")
    answer = world.client.post(f"/datasets/{world.humaneval.id}/delete")
    assert answer.status_code == 409
    assert "Nothing was deleted: humaneval is used by 1 run: delete it first" in answer.text


def test_the_command_deletes_by_name_or_id_and_names_the_remedy_otherwise(ctx, bassline):
    store_dataset(ctx, "mine")
    by_id = store_dataset(ctx, "more")
    done = [bassline("datasets", "delete", reference) for reference in ("mine", str(by_id))]
    assert [result.exit_code for result in done] == [0, 0], [result.output for result in done]
    assert done[0].output.startswith("deleted mine, 1 task")
    unknown = bassline("datasets", "delete", "mine")
    assert unknown.exit_code == 2
    assert "there is no dataset 'mine'" in unknown.output
