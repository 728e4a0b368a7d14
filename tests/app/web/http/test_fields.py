"""A problem document names the field at fault and the word that was probably meant; the command line says the same."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from app.accounts import users
from app.accounts.service import create_token
from app.cli.main import cli
from app.core.errors import BadInputError
from app.core.states import Scope
from app.datasets.service import check_name
from app.site.factory import create_app

BODY = {"target": "smollm2-135m", "dataset": "additions", "n": 2, "budget_s": 5}


@pytest.fixture
def client(ctx, additions):
    return create_app(ctx).test_client()


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("device", "cdua", "device is 'cdua': did you mean cuda? Use one of auto, cpu, cuda"),
        ("dtype", "bfloat", "dtype is 'bfloat': did you mean bfloat16?"),
        ("dtype", "x", "dtype is 'x': use one of auto, float32, bfloat16, float16"),
        ("draft_length", "fixed:99", "draft_length is 'fixed:99': use goodput, bass, table or fixed:K"),
        ("draft_length", "godput", "draft_length is 'godput': did you mean goodput?"),
        ("acceptance", "coupld", "acceptance is 'coupld': did you mean coupled?"),
        ("drafter", "siblng", "drafter is 'siblng': did you mean sibling?"),
        ("drafter", "sibling+smolm2-135m", "did you mean smollm2-135m?"),
        ("prompt_mode", "chatt", "prompt_mode is 'chatt': did you mean chat? Use one of auto, chat,"),
        ("target", "smolm2-135m", "model 'smolm2-135m' is not known: did you mean smollm2-135m?"),
        ("dataset", "aditions", "there is no dataset 'aditions': did you mean additions?"),
        ("temperature", 99, "temperature is 99"),
        ("limit", 0, "limit is 0"),
    ],
)
def test_every_wrong_field_is_named_with_the_remedy(client, field, value, sentence):
    answer = client.post("/api/v1/runs", json={**BODY, field: value})
    assert answer.status_code == 422
    assert sentence in answer.json["detail"]
    assert answer.json["errors"] == [{"field": field, "detail": answer.json["detail"]}]


def test_a_remote_target_refuses_a_drafter_by_its_field(client):
    body = {**BODY, "target": "openai:m@http://localhost/v1", "drafter": "ngram"}
    answer = client.post("/api/v1/runs", json=body)
    assert answer.json["errors"][0]["field"] == "drafter"
    assert "drafter is 'ngram': a remote target drafts as it likes, leave it out" in answer.json["detail"]


def test_a_filter_of_the_list_is_named_too(client):
    answer = client.get("/api/v1/runs?state=runing")
    assert answer.json["errors"][0]["field"] == "state"
    assert "did you mean running?" in answer.json["detail"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["runz", "list"], "there is no command 'runz': did you mean runs?"),
        (["evl"], "did you mean eval?"),
        (["runs", "list", "--state", "runing"], "did you mean running?"),
        (["runs", "show", "nightli"], "there is no run 'nightli': did you mean nightly?"),
        (["eval", "--target", "smollm2-135m", "--acceptance", "coupld"], "did you mean coupled?"),
        (["eval", "--target", "smollm2-135m", "--drafter", "siblng"], "--drafter is 'siblng': did you mean sibling?"),
        (["eval", "--target", "smollm2-135m", "--dataset", "aditions"], "did you mean additions?"),
        (["bench", "decod"], "did you mean decode?"),
    ],
)
def test_a_mistyped_word_on_the_command_line_gets_the_nearest_one(ctx, additions, client, monkeypatch, words, sentence):
    monkeypatch.setattr("app.cli.common.make_context", lambda: ctx)
    client.post("/api/v1/runs", json={**BODY, "name": "nightly"})
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert sentence in result.stderr


UNSEEN = ("\n", " ", "\t\r\n", "\x1b\x07", "\u200b", "\u2028\u00a0")


@pytest.mark.parametrize("name", UNSEEN)
def test_a_name_of_which_nothing_can_be_seen_is_refused(client, ctx, name):
    arms = [{"target": "smollm2-135m", "n": 1}, {"target": "smollm2-135m", "n": 2}]
    study = {"dataset": "additions", "budget_s": 5, "arms": arms}
    named_arm = {**study, "arms": [arms[0], {**arms[1], "name": name}]}
    for path, body in (
        ("/api/v1/runs", {**BODY, "name": name}),
        ("/api/v1/studies", {**study, "name": name}),
        ("/api/v1/studies", named_arm),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 422, path
        assert refused.json["errors"][0]["field"].endswith("name")
    for make in (
        lambda: create_token(ctx, name, Scope.READ),
        lambda: users.create_user(ctx, name, "correct horse battery", Scope.READ),
        lambda: check_name(name),
    ):
        with pytest.raises(BadInputError):
            make()


def test_a_name_is_stored_without_surrounding_whitespace(client):
    assert client.post("/api/v1/runs", json={**BODY, "name": " mine\n"}).json["run"]["name"] == "mine"
