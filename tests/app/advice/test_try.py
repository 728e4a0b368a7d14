"""Try my code: from a folder or an archive to a report, by page and by REST; bad input is one sentence."""

from __future__ import annotations

import dataclasses
import html
import io
import re
import sys
import uuid
from functools import partial
from pathlib import Path

import pytest

from app.advice import handler, service
from app.advice.schemas import AdviceSpec
from app.advice.service import UploadedProject
from app.background import jobs
from app.background.models import BackgroundJob
from app.background.work import handle_message
from app.core.broker import queues
from app.core.db.archives import read_project_archive
from app.core.ports import SandboxGrader
from app.core.states import BackgroundJobState, RunState
from app.datasets import service as datasets
from app.jobs.embedded import EmbeddedWorkers
from app.runs import transitions
from app.site.factory import create_app
from app.studies import service as studies
from app.studies.repository import get_study
from evaluation.sandbox import Sandbox
from tests.evaluation.from_code.source.test_uploaded import pack_tar
from tests.evaluation.from_code.wheels import build_wheels
from tests.fakes import RecordingBroker
from tests.integration.waiting import wait_for
from tests.thorough import thorough

SHOP = '''
def clamp(value, low, high):
    """The value, but at least low and at most high.

    >>> clamp(7, 1, 5)
    5
    """
    if value < low:
        return low
    if value > high:
        return high
    return value
'''
TESTS = """
import pytest
from shop import clamp

@pytest.mark.parametrize("value", range(-3, 9))
def test_clamp(value):
    assert clamp(value, 0, 5) == sorted((0, value, 5))[1]
"""
FILES = {"shop/shop.py": SHOP.encode(), "shop/test_shop.py": TESTS.encode()}


@pytest.fixture
def project(tmp_path) -> Path:
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return tmp_path / "shop"


def job_of(ctx, job_id) -> BackgroundJob:
    with ctx.database.read() as session:
        return jobs.get_job(session, job_id)


def study_of(ctx, job_id):
    with ctx.database.read() as session:
        return get_study(session, uuid.UUID(job_of(ctx, job_id).arguments["study_id"]))


def text_of(answer) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.get_data(as_text=True))))


def asking_for_tokens(ctx):
    """The same service for many users: here without their tokens, so that no test has to send one."""
    return dataclasses.replace(ctx, settings=ctx.settings.model_copy(update={"broker_url": "redis://localhost"}))


@pytest.mark.slow
@pytest.mark.parametrize("source", [thorough("folder"), "archive"])
def test_from_the_form_to_the_report(ctx, project, tmp_path, monkeypatch, source):
    ctx.make_grader = partial(SandboxGrader, (), partial(read_project_archive, ctx.database))
    form = {"target": ["smollm2-135m"], "n": "2", "budget_s": "5", "minutes": "1"}
    if source == "folder":
        form |= {"path": str(project), "python": sys.executable}
    else:
        if not Sandbox.detect().tier.namespaces:
            pytest.skip("no bubblewrap here")
        monkeypatch.setenv("PIP_FIND_LINKS", str(build_wheels(tmp_path / "wheels")))
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        form["file"] = (io.BytesIO(pack_tar(FILES)), "shop.tar.gz")
    app = create_app(ctx)
    app.config["WTF_CSRF_ENABLED"] = False
    client = app.test_client()
    with EmbeddedWorkers(ctx, "test"):
        started = client.post("/try", data=form, content_type="multipart/form-data")
        assert started.status_code == 303, text_of(started)
        job_id = uuid.UUID(started.location.rpartition("/")[2])
        wait_for(lambda: job_of(ctx, job_id).state not in (BackgroundJobState.QUEUED, BackgroundJobState.RUNNING), 400)
    job = job_of(ctx, job_id)
    assert job.state is BackgroundJobState.FINISHED, job.error
    dataset = datasets.find_dataset(ctx, uuid.UUID(job.result["dataset_id"]))
    assert [task.entry_point for task in dataset.tasks] == ["clamp"]
    page = text_of(client.get(started.location))
    assert job.result["advice"] in page
    assert "of your code within 5 s" in page
    report = text_of(client.get(f"/try/report/{job.result['study_id']}"))
    assert "Which model for shop?" in report
    assert "The tasks are 1 of the 1 functions" in report
    assert "smollm2-135m, n = 2" in report
    shown = client.get(f"/api/v1/try/{job_id}").json
    assert (shown["step"], shown["advice"], shown["study_id"]) == (
        "answer",
        job.result["advice"],
        job.result["study_id"],
    )
    markdown = client.get(f"/api/v1/studies/{job.result['study_id']}/advice")
    assert markdown.headers["Content-Disposition"] == 'attachment; filename="advice.md"'
    assert f"# Which model for shop?\n\n{shown['advice']}" in markdown.text
    assert f"```console\n{study_of(ctx, job_id).command}\n```" in markdown.text
    assert not list((ctx.settings.data_dir / "try").glob("*")), "nothing of the work is left"
    assert not handler.find_archive_folder(job_id).exists()


@pytest.fixture
def begun(ctx, additions) -> uuid.UUID:
    """A job whose dataset is made."""
    ctx.broker = RecordingBroker()
    arguments = AdviceSpec(path="/shop", budget_s=5).model_dump(mode="json")
    arguments |= {"study_id": str(uuid.uuid4()), "models": ["smollm2-135m"], "archive": ""}
    cursor = {"dataset_id": str(datasets.require_dataset(ctx, additions).id)}
    with ctx.database.session() as session:
        job = jobs.make_job(service.KIND, "shop", key=arguments["study_id"], arguments=arguments, cursor=cursor)
        session.add(job)
    return job.id


def test_while_the_study_works_the_job_waits_without_a_message_and_its_end_sends_one(ctx, begun):
    handle_message(ctx, begun)
    job = job_of(ctx, begun)
    assert (job.state, job.attempt, job.cursor["step"]) == (BackgroundJobState.QUEUED, 0, "study")
    assert (queues.WORK_JOB, begun) not in ctx.broker.sent
    with ctx.database.session() as session:
        for run in get_study(session, uuid.UUID(job.arguments["study_id"])).runs:
            run.state = RunState.RUNNING
        session.flush()
        shown = service.describe_job(session, job).job
        assert (shown.state, shown.done) == (BackgroundJobState.RUNNING, 0), "its study runs"
    for run in study_of(ctx, begun).runs:
        transitions.interrupt(ctx, run.id, "the power failed")
    assert ctx.broker.sent.count((queues.WORK_JOB, begun)) == 1
    handle_message(ctx, begun)
    job = job_of(ctx, begun)
    assert job.state is BackgroundJobState.FAILED
    assert job.error == "the study ended as interrupted: the power failed; a retry resumes it"
    jobs.retry(ctx, begun)
    handle_message(ctx, begun)
    assert study_of(ctx, begun).state is RunState.QUEUED


def test_a_cancelled_job_cancels_its_study_and_a_retry_resumes_both(ctx, begun):
    handle_message(ctx, begun)
    jobs.cancel(ctx, begun)
    assert (job_of(ctx, begun).state, study_of(ctx, begun).state) == (BackgroundJobState.CANCELLED, RunState.CANCELLED)
    jobs.retry(ctx, begun)
    with EmbeddedWorkers(ctx, "test"):
        ctx.broker.send([(queues.WORK_JOB, begun)], queues.EXEC)
        wait_for(lambda: job_of(ctx, begun).state is BackgroundJobState.FINISHED, 240)
    assert "Too few to advise" in job_of(ctx, begun).result["advice"]


def test_a_study_that_ends_before_the_job_waits_for_it_is_not_missed(ctx, begun, monkeypatch):
    submit = studies.submit

    def submit_and_end(ctx, *given, **options):
        study_id = submit(ctx, *given, **options)
        for run in study_of(ctx, begun).runs:
            transitions.interrupt(ctx, run.id, "it was quick")
        ctx.broker.sent.clear()
        return study_id

    monkeypatch.setattr(studies, "submit", submit_and_end)
    handle_message(ctx, begun)
    assert job_of(ctx, begun).state is BackgroundJobState.QUEUED
    assert ctx.broker.sent == [(queues.WORK_JOB, begun)]


def test_a_worker_that_is_lost_submits_no_second_study(ctx, begun, monkeypatch):
    monkeypatch.setattr(handler, "_save", lambda *_, **__: None)  # it is killed before it has stored a step
    handle_message(ctx, begun)
    monkeypatch.undo()
    first = study_of(ctx, begun)
    handle_message(ctx, begun)
    assert (job_of(ctx, begun).state, study_of(ctx, begun).created_at) == (BackgroundJobState.QUEUED, first.created_at)


def test_an_archive_that_is_gone_is_asked_for_again(ctx, begun):
    with ctx.database.session() as session:
        job = jobs.get_job(session, begun)
        job.cursor, job.arguments = {}, {**job.arguments, "archive": "shop.zip"}
    handle_message(ctx, begun)
    assert job_of(ctx, begun).error == "shop.zip is not stored any more: upload it again"


def test_the_source_is_a_folder_where_serve_is_local_and_an_archive_elsewhere(ctx, world):
    here = world.client.get("/try").text
    assert 'name="path"' in here
    assert 'name="file"' not in here
    assert not service.can_accept_paths(ctx.settings.model_copy(update={"require_tokens": True}))
    assert not service.can_accept_paths(asking_for_tokens(ctx).settings)
    elsewhere = dataclasses.replace(
        world.context, settings=world.context.settings.model_copy(update={"broker_url": "redis://x", "secret_key": "x"})
    )
    page = create_app(elsewhere).test_client().get("/try").text
    assert 'name="path"' not in page
    assert re.search(r'name="file" type="file"', page)
    assert 'name="requirements"' in page


ARCHIVE = UploadedProject("shop.tar.gz", pack_tar(FILES))
BAD = [
    ({}, None, True, "path", "path is missing: give the folder of the project"),
    ({"path": "/no/such/folder"}, None, True, "path", "there is no such folder here, give it in full"),
    ({"path": "/tmp", "python": "/no/python"}, None, True, "python", "python /no/python is not a program"),
    ({"path": "/tmp", "tests": "'"}, None, True, "tests", "tests cannot be read as a command"),
    ({"path": "/tmp", "requirements": "attrs"}, None, True, "requirements", "requirements is for an uploaded project"),
    ({"path": "/tmp", "name": "humaneval"}, None, True, "name", "is the name of a built-in dataset"),
    ({"path": "/tmp", "target": "no-such-model"}, None, True, "target", "no-such-model"),
    ({"path": "/tmp"}, None, False, "path", "path is for `bassline serve` on your own machine"),
    ({}, None, False, "file", "file is missing: choose an archive"),
    ({"path": "/tmp"}, ARCHIVE, False, "path", "path is for a project in a folder"),
    ({"python": "python3"}, ARCHIVE, False, "python", "python is for a project in a folder"),
    ({"tests": "tox"}, ARCHIVE, False, "tests", "begin with python or pytest"),
    ({"requirements": "-e ."}, ARCHIVE, False, "requirements", "requirements: '-e .' is not a requirement"),
    ({}, UploadedProject("shop.zip", b"x"), False, "file", "file: shop.zip cannot be read"),
    ({}, UploadedProject("a.tar.gz", pack_tar({"../x": b""})), True, "file", "file: a path in the archive leads out"),
]


@pytest.mark.parametrize(("given", "archive", "local", "field", "said"), BAD)
def test_bad_input_is_one_sentence_with_field_and_remedy(ctx, given, archive, local, field, said):
    asked = ctx if local else asking_for_tokens(ctx)
    with pytest.raises(service.BadInputError) as refused:
        service.submit(asked, AdviceSpec(**{"target": "smollm2-135m", **given}), archive)
    assert (refused.value.field, said in str(refused.value)) == (field, True), str(refused.value)


def test_a_form_that_is_refused_is_shown_again_with_its_input(world):
    world.app.config["WTF_CSRF_ENABLED"] = False
    form = {"path": "/no/such/folder", "budget_s": "2", "target": ["smollm2-135m", "qwen2.5-coder-0.5b"]}
    answer = world.client.post("/try", data=form)
    assert answer.status_code == 422
    assert "Folder of the project is '/no/such/folder': there is no such folder here" in text_of(answer)
    assert 'value="/no/such/folder"' in answer.text
    assert 'aria-describedby="e-path h-path"' in answer.text
    answer = world.client.post("/try", data=form | {"budget_s": "a lot", "n": "99"})
    assert "Budget per answer, seconds is 'a lot': give a number" in text_of(answer)
    assert "Samples per task is '99': give 16 or less" in text_of(answer)


def test_a_form_without_a_usable_archive_names_its_label(world):
    settings = world.context.settings.model_copy(update={"broker_url": "redis://x", "secret_key": "x"})
    app = create_app(dataclasses.replace(world.context, settings=settings))
    app.config["WTF_CSRF_ENABLED"] = False
    form = {"target": "smollm2-135m", "file": (io.BytesIO(pack_tar({"../x": b""})), "a.tar.gz")}
    answer = app.test_client().post("/try", data=form, content_type="multipart/form-data")
    assert "Archive of the project: a path in the archive leads out of its folder: remove '../x'" in html.unescape(
        text_of(answer)
    )


def test_rest_refuses_as_the_page_does(world):
    answer = world.client.post("/api/v1/try", data={"path": "/no/such/folder"}, content_type="multipart/form-data")
    assert (answer.status_code, answer.mimetype) == (422, "application/problem+json")
    assert "path is '/no/such/folder': there is no such folder here" in answer.json["detail"]
    answer = world.client.post("/api/v1/try", data={"pathh": "/"}, content_type="multipart/form-data")
    assert "pathh is not a known field" in answer.json["detail"]
    assert world.client.get(f"/api/v1/try/{uuid.uuid4()}").status_code == 404


def test_the_page_shows_each_state_and_its_button(world, monkeypatch):
    world.app.config["WTF_CSRF_ENABLED"] = False
    job_id = service.submit(world.context, AdviceSpec(path="/tmp", target="smollm2-135m"), None)

    def change(**values):
        with world.context.database.session() as session:
            for name, value in values.items():
                setattr(jobs.get_job(session, job_id), name, value)
        return world.client.get(f"/try/{job_id}")

    page = change(
        state=BackgroundJobState.RUNNING,
        cursor={"step": "tasks"},
        done=3,
        total=9,
        message="functions checked",
        subject="<b>mine",
    )
    assert "<b>mine" not in page.text
    assert "3 of 9 functions checked" in text_of(page)
    assert re.search(r'aria-current="step">Make tasks', page.text)
    assert f'action="/jobs/{job_id}/cancel"' in page.text
    assert '<noscript><meta http-equiv="refresh"' in page.text
    page = change(state=BackgroundJobState.FAILED, error="no function of <i>shop</i> became a task")
    assert "Failed. No function of <i>shop</i> became a task" in html.unescape(text_of(page))
    assert "<i>" not in page.text
    assert f'action="/jobs/{job_id}/retry"' in page.text
    for listing in ("/try", "/jobs"):
        assert f'<a href="/try/{job_id}">' in world.client.get(listing).text
    other = jobs.open_job(world.context, "check_dataset", "x")
    assert world.client.get(f"/try/{other}").status_code == 404


def test_the_report_of_a_study_names_its_models(world):
    study = world.add_study({"name": "small", "n": 1}, {"name": "large <b>", "n": 2, "pace": 4}, name="Which?")
    page = world.client.get(f"/try/report/{study}")
    assert page.status_code == 200
    said = text_of(page)
    assert "tasks of your code within 10 s" in said
    assert re.search(r"large <b> .* \d+ % \(", said)
    assert world.client.get(f"/api/v1/studies/{study}/advice").text.startswith("# Which model for ")
