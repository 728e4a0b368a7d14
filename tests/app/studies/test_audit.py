"""`bassline audit` and its REST, over engines that do and do not change texts when they speculate."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from sqlalchemy import select

from app.core.errors import BadInputError
from app.runs.models import Run
from app.samples.models import Sample
from app.site.factory import create_app
from app.studies.audit import AuditSpec
from decoding.models.errors import ModelError
from tests.fakes import FakeEngine

N_TOKENS = 200
AUDIT = ("audit", "--off", "smollm2-135m", "--on", "smollm2-135m", "--dataset", "additions", "--n", 16, "--budget", 5)


class WritingEngine(FakeEngine):
    """Writes tokens that follow from the request alone, but for a share of them, which it draws again each time."""

    def __init__(self, changed: float = 0.0) -> None:
        super().__init__()
        self.changed = changed

    def generate(self, request, on_update=None, should_cancel=None):
        completion = super().generate(request, on_update, should_cancel)
        return replace(completion, samples=[self._rewrite(request, sample) for sample in completion.samples])

    def _rewrite(self, request, sample):
        rng = random.Random(f"{request.prompt} {request.seed} {sample.index} {request.sampling.temperature}")
        tokens = [rng.randrange(4) for _ in range(N_TOKENS)]
        changes = [random.random() < self.changed for _ in tokens]
        sample.token_ids = [9 if change else token for token, change in zip(tokens, changes, strict=True)]
        sample.logprobs = [-9.0 if change else -1.0 for change in changes]
        sample.text = "".join(chr(97 + token) for token in sample.token_ids)
        sample.ends, sample.origins = list(range(1, N_TOKENS + 1)), ["target"] * N_TOKENS
        return sample


@pytest.fixture
def audit(ctx, bassline, additions):
    """Audits engines with these shares of changed tokens without and with speculation; returns the document."""

    def run(off: float, on: float) -> dict:
        ctx.load_engine = lambda config, _: WritingEngine(off if config.drafter == "none" else on)
        result = bassline(*AUDIT, "--json", "-")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


def test_an_engine_that_changes_nothing_is_equal_and_one_that_changes_a_token_in_200_is_found(audit, bassline, ctx):
    equal = audit(0.0, 0.0)
    assert (equal["verdict"], equal["changed_share"], equal["noise_share"], equal["tasks"]) == ("equal", 0, 0, [])
    assert [each["texts"] for each in equal["decodings"]] == [3, 48]
    assert (equal["profiles"]["off"]["drafter"], equal["profiles"]["on"]["drafter"]) == ("none", "sibling")
    with ctx.database.read() as session:
        assert all(run.throughput for run in session.scalars(select(Run))), "tasks share batches: only texts count"
    changed = audit(0.0, 1 / 200)
    assert changed["verdict"] == "changed"
    assert changed["sentence"].startswith("sampled: changes the distribution: speculation changes")
    assert (0.3 < changed["changed_share"] < 0.95, changed["noise_share"]) == (True, 0)
    assert sum(changed["first_difference"].values()) == round(48 * changed["changed_share"])
    text = changed["tasks"][0]
    assert text["off"] != text["on"]
    assert text["task_id"].startswith("add/")

    address = f"/api/v1/studies/{changed['study_id']}/audit"
    assert create_app(ctx).test_client().get(address).json == changed
    shown = bassline("audit", "--study", changed["study_id"])
    assert (shown.exit_code, "changes the distribution" in shown.stdout) == (0, True), shown.output
    assert "Pass@1 on - off" in shown.stdout
    place = f"{text['task_id']}, sample {text['index']}, {text['decoding']}, from token {text['position']}"
    assert {changed["name"], place} <= set(shown.stdout.splitlines())
    page = create_app(ctx).test_client().get(f"/studies/{changed['study_id']}").text
    assert "Does speculation change the answers?" in page
    assert changed["sentence"].partition(": ")[2] in page
    assert "Texts that differ" in page


def test_an_arm_that_cannot_load_fails_the_audit_before_any_arm_decodes(ctx, bassline, additions):
    def load(config, _):
        if config.drafter != "none":
            raise ModelError("the drafter is broken")
        return WritingEngine()

    ctx.load_engine = load
    result = bassline(*AUDIT)
    assert (result.exit_code, "the drafter is broken; no arm was started" in result.output) == (1, True), result.output
    with ctx.database.read() as session:
        assert session.scalars(select(Sample)).all() == []


def test_a_server_that_differs_from_itself_is_noise(audit):
    found = audit(1 / 100, 1 / 100)
    assert found["verdict"] in ("within_noise", "undecided")  # the greedy texts are three
    sampled = found["decodings"][1]
    assert (sampled["verdict"], sampled["noise_share"] > 0.5) == ("within_noise", True)


def test_an_audit_is_submitted_over_rest_and_repeats_itself(ctx, additions):
    client = create_app(ctx).test_client()
    body = {"off": "smollm2-135m", "on": "smollm2-135m", "dataset": "additions", "dtype": "float32"}
    made = client.post("/api/v1/audits", json=body)
    assert made.status_code == 201, made.text
    assert [arm["name"] for arm in made.json["arms"]][:4] == [
        "greedy, off", "greedy, off again", "greedy, on", "greedy, on again",
    ]  # fmt: skip
    drafters = [arm["configuration"]["drafter"] for arm in made.json["arms"]]
    assert drafters == ["none", "none", "sibling", "sibling"] * 2
    assert made.json["study"]["command"] == (
        "bassline audit --dataset additions --off smollm2-135m --on smollm2-135m --dtype float32"
    )
    early = client.get(made.headers["Location"])
    assert (early.status_code, "no result" in early.json["detail"]) == (409, True), early.text
    for changes, named in (({"off": "nothing-like-it"}, "nothing-like-it"), ({"temperature": 0}, "temperature")):
        refused = client.post("/api/v1/audits", json={**body, **changes})
        assert (refused.status_code, refused.content_type) == (422, "application/problem+json")
        assert named in refused.json["detail"]
    other = {"dataset": "additions", "arms": [{"target": "smollm2-135m", "n": n} for n in (1, 2)]}
    study = client.post("/api/v1/studies", json=other).json["study"]["id"]
    refused = client.get(f"/api/v1/studies/{study}/audit")
    assert (refused.status_code, "the study is not an audit" in refused.json["detail"]) == (409, True)


def test_a_remote_side_chooses_its_own_drafter():
    spec = AuditSpec(off="openai:m@http://a/v1", on="openai:m@http://b/v1")
    study = spec.build_study()
    assert [arm.drafter for arm in study.arms] == ["none"] * 8
    assert [(arm.target[-6:], arm.temperature, arm.n) for arm in study.arms[:3]] == [
        ("//a/v1", 0, 1), ("//a/v1", 0, 1), ("//b/v1", 0, 1),
    ]  # fmt: skip
    with pytest.raises(BadInputError):
        AuditSpec(off="openai:m", on="x", drafter="nonsense").build_study()


def test_what_an_audit_needs_is_asked_for(bassline):
    result = bassline("audit", "--off", "smollm2-135m")
    assert (result.exit_code, "on is missing" in result.output) == (2, True), result.output


def test_token_ids_of_one_side_are_compared_by_their_texts_with_a_server_that_sends_none(bassline, ctx, additions):
    class Distant(WritingEngine):
        def _rewrite(self, request, sample):
            sample = super()._rewrite(request, sample)
            sample.token_ids, sample.origins = [], []
            return sample

    ctx.load_engine = lambda config, _: WritingEngine() if config.drafter == "none" else Distant()
    found = json.loads(bassline(*AUDIT, "--json", "-").stdout)
    assert (found["verdict"], found["changed_share"]) == ("equal", 0)
    ctx.load_engine = lambda config, _: WritingEngine() if config.drafter == "none" else Distant(1 / 200)
    found = json.loads(bassline(*AUDIT, "--json", "-").stdout)
    sampled = found["decodings"][1]
    assert (sampled["verdict"], sampled["on_more_likely"]) == ("changed", 0)
    assert sampled["off_more_likely"] == round(48 * sampled["changed_share"])  # by the log-probabilities at the place
