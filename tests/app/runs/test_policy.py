"""Exactly one policy decides about each run: evaluation, arm of a study, or completion."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from app.background import handlers
from app.completions import service as completions
from app.completions.policy import CompletionPolicy
from app.completions.schemas import CompletionSpec
from app.core.lazy_registry import LazyRegistry
from app.runs import policy, service
from app.runs.models import Run
from app.runs.policy import EvaluationPolicy
from app.studies import service as studies
from app.studies.models import Study
from app.studies.policy import ArmPolicy
from app.studies.schemas import StudySpec


@pytest.fixture
def run_ids(ctx, additions, spec) -> dict[type[policy.Policy], list]:
    """Runs of each policy."""
    completion = completions.submit(ctx, CompletionSpec(target="smollm2-135m", prompt="def add(a, b):\n"))
    arms = tuple({"target": "smollm2-135m", "drafter": drafter} for drafter in ("none", "ngram"))
    study = studies.submit(ctx, StudySpec(dataset=additions, arms=arms))
    with ctx.database.read() as session:
        of_arms = [run.id for run in session.get_one(Study, study).runs]
    evaluations = [service.submit(ctx, spec()), service.submit(ctx, spec(), is_reference=True)]
    return {CompletionPolicy: [completion], ArmPolicy: of_arms, EvaluationPolicy: evaluations}


def test_each_run_has_the_policy_of_what_it_is_for(ctx, run_ids):
    with ctx.database.read() as session:
        found = {kind: {type(policy.find_policy(session, one)) for one in ids} for kind, ids in run_ids.items()}
    assert found == {kind: {kind} for kind in run_ids}


def test_the_conditions_of_the_policies_share_the_runs_out(ctx, run_ids):
    with ctx.database.read() as session:
        found = {
            type(one): set(session.scalars(select(Run.id).where(Run.policy == one.name)))
            for one in policy.list_policies()
        }
        interactive = set(session.scalars(select(Run.id).where(policy.is_interactive())))
    assert found == {kind: set(ids) for kind, ids in run_ids.items()}
    assert interactive == set(run_ids[CompletionPolicy])


def test_work_without_registered_policies_says_what_to_import(monkeypatch):
    monkeypatch.setattr(policy, "POLICIES", LazyRegistry(lambda each: each.name))
    monkeypatch.setattr(handlers, "HANDLERS", LazyRegistry(lambda each: each.kind))
    for find in (policy.list_policies, lambda: handlers.get_handler("import_samples")):
        with pytest.raises(RuntimeError, match=r"import app\.domains"):
            find()
