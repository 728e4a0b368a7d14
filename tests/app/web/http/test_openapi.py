"""The OpenAPI document: every endpoint is in it, and whatever a client sends, the answer is one it describes."""

from __future__ import annotations

import dataclasses
import re
import uuid

import limits
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from sqlalchemy import select

from app.accounts import access
from app.accounts.service import create_token
from app.core.context import CallerPool
from app.core.states import RunState, Scope
from app.runs import figures, service
from app.runs.models import Run
from app.site.factory import create_app
from app.studies import service as studies
from app.studies.schemas import StudySpec
from app.web.http.openapi import build_openapi_document
from app.workers import service as workers
from tests.head_records import write_head
from tests.thorough import thorough

PLAIN = {"Accept-Encoding": "identity"}  # the tester of WSGI applications does not decompress


@pytest.fixture
def app(ctx, monkeypatch):
    """The service as strangers meet it: tokens required, a worker alive, nobody limited."""
    workers.report(ctx)
    monkeypatch.setattr(access, "FAILURE_RATE", limits.parse("1000000 per minute"))
    guarded = dataclasses.replace(
        ctx, settings=ctx.settings.model_copy(update={"require_tokens": True, "rate_limit": ""})
    )
    guarded.downloads = CallerPool(1000)  # schemathesis does not close what it receives
    return create_app(guarded)


@pytest.fixture
def there(app, ctx, spec, tmp_path, monkeypatch) -> dict[str, uuid.UUID | str]:
    """A run and a study that have ended, and a trained drafter: every address of one has something to show."""
    arms = [{"target": spec().target, "n": n} for n in (1, 2)]
    study_id = studies.submit(ctx, StudySpec.model_validate({"dataset": spec().dataset, "arms": arms}))
    run_id = service.submit(ctx, spec())
    with ctx.database.session() as session:
        for run in session.scalars(select(Run)):
            run.state = RunState.FINISHED
            figures.store_measurement(session, run, figures.compute_measurement(session, run))
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    write_head(tmp_path / "cache", spec().target)
    return {"run_id": run_id, "study_id": study_id, "slug": spec().target}


@pytest.fixture
def api(app):
    import schemathesis  # which takes a second in every process that would import it above

    without_auth = schemathesis.Config.from_dict({"generation": {"with-security-parameters": False}})
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app, config=without_auth)


def test_every_address_of_the_api_is_described(app):
    described = build_openapi_document(app)["paths"]
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/api/"):
            path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
            methods = {m.lower() for m in rule.methods or ()} - {"head", "options"}
            assert methods <= set(described.get(path, ())), path


def test_every_operation_has_a_name_of_its_own_and_says_what_it_does(app):
    operations = [o for path in build_openapi_document(app)["paths"].values() for o in path.values()]
    assert len({o["operationId"] for o in operations}) == len(operations)
    assert all(o["summary"] for o in operations)


@pytest.mark.parametrize(("mode", "n_examples"), [("positive", 1), thorough("positive", 25), thorough("negative", 25)])
def test_no_request_makes_an_answer_that_is_not_described(ctx, api, there, mode, n_examples):
    """Valid and invalid requests to every operation, generated from the document itself."""
    from schemathesis import GenerationMode, checks
    from schemathesis.specs.openapi import checks as openapi

    every_check = [
        checks.not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_schema_conformance,
        openapi.negative_data_rejection,
        openapi.unsupported_method,
        openapi.ignored_auth,
    ]
    token = {"Authorization": f"Bearer {create_token(ctx, 'all', Scope.ADMIN)}"}
    for found in api.get_all_operations():
        operation = found.ok()

        @settings(max_examples=n_examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
        def sends(case):
            case.call_and_validate(headers=token | PLAIN, checks=every_check)
            for name, found_id in there.items():
                if case.method == "GET" and name in case.path_parameters and not case.path.endswith("/events"):
                    case.path_parameters[name] = str(found_id)
                    case.call_and_validate(headers=token | PLAIN, checks=every_check)

        try:
            sends()
        except Unsatisfiable:
            assert mode == "negative", operation.label  # nothing about it can be wrong
