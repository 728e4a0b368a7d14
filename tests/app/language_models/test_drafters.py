"""Trained drafters on the page of models and by REST. Records are files: they may be damaged, hostile or incomplete."""

from __future__ import annotations

import html
import json
import re

import pytest
from sqlalchemy import select

from app.core.context import make_context
from app.core.settings import Settings
from app.language_models.models import PublishedHead
from app.site.factory import create_app
from decoding.models.registry import resolve
from tests.head_records import TARGET, write_head

HUB = "hf:org/Code.Model-1B"
HOSTILE = '</h1><script>alert(1)</script><img src=x onerror="alert(2)">\u202egnirts\x1b[31m'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def client(world, cache):
    return world.client


def body_of(client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.get_data(as_text=True)


def text_of(client, path: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body_of(client, path))).split())


def change(file, **changes) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_models_says_how_to_train_a_drafter_where_there_is_none(client):
    text = text_of(client, "/models")
    assert "proposes tokens for one target model" in text
    assert "bassline drafter train --target qwen2.5-coder-0.5b" in text


def test_every_drafter_is_listed_with_what_its_record_says(client, cache):
    write_head(cache)
    write_head(cache, HUB, source="hf:org/eagle3", hours=0.0, match=[])
    row = text_of(client, "/models").partition("Trained drafters")[2]
    for shown in (
        TARGET,
        HUB,
        "hf:org/eagle3",
        "trained",
        "21 M",
        "43 MB",
        "71.3 %",
        "3 h 12 min",
        "2026-11-20 10:49 UTC",
    ):
        assert shown in row


@pytest.mark.parametrize(
    "damage",
    [
        {"match": "high"},
        {"match": [7.0]},
        {"n_parameters": None},
        {"n_bytes": 10**400},
        {"created_at": "yesterday"},
        {"target": 5},
        {"target": None},
        {"hours": 1e300},
        {"hours": float("nan")},
        {"match": [float("nan")]},
        {"colour": "blue"},
    ],
)
def test_a_damaged_record_hides_its_drafter_and_no_other(client, cache, damage):
    change(write_head(cache), **damage)
    write_head(cache, HUB)
    assert TARGET not in text_of(client, "/models").partition("Trained drafters")[2].partition("Other ways")[0]
    assert slug_of(client) == resolve(HUB).slug
    assert client.delete(f"/api/v1/drafters/{TARGET}").status_code == 404


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_a_file_that_is_no_record_does_not_break_the_page(client, cache, text):
    write_head(cache).write_text(text)
    assert "bassline drafter train" in text_of(client, "/models")


def slug_of(client) -> str:
    [drafter] = client.get("/api/v1/drafters").json["drafters"]
    return drafter["slug"]


def test_hostile_texts_of_a_record_stay_texts(client, cache):
    texts = dict.fromkeys(("target", "source", "sha256", "target_sha256"), HOSTILE)
    change(write_head(cache), **texts)
    body = body_of(client, "/models")
    assert "alert(1)" in body
    assert "<script>alert" not in body
    assert "<img" not in body
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", body)


def test_a_name_that_is_no_unicode_can_be_shown_and_sent(client, cache):
    change(write_head(cache), target="/models/\udce9", source="\ud800")
    assert client.get("/api/v1/drafters").json["drafters"][0]["source"] == "?"
    assert "/models/?" in text_of(client, "/models")


@pytest.mark.parametrize("slug", ["nothing", "%2e%2e", "..%2f..%2fsecrets", "a/b", "x" * 5000])
def test_an_unknown_drafter_is_not_found(client, cache, slug):
    write_head(cache)
    answer = client.delete(f"/api/v1/drafters/{slug}")
    assert answer.status_code == 404
    assert answer.content_type == "application/problem+json"


def test_rest_lists_drafters_in_pages(client, cache):
    for target in (TARGET, HUB, "smollm2-135m"):
        write_head(cache, target)
    first = client.get("/api/v1/drafters?limit=2").json
    rest = client.get(f"/api/v1/drafters?limit=2&cursor={first['next']}").json
    listed = [*first["drafters"], *rest["drafters"]]
    assert rest["next"] is None
    assert {one["target"] for one in listed} == {TARGET, HUB, "smollm2-135m"}
    assert all("curve" not in one for one in listed)


def test_drafters_come_from_the_configured_cache(world, tmp_path, monkeypatch):
    monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / "another"))  # make_context sets it; this restores it
    write_head(tmp_path / "mine")
    settings = Settings(data_dir=tmp_path, cache_dir=tmp_path / "mine", _env_file=None)
    ctx = make_context(settings)
    try:
        assert f"/models/drafters/{TARGET}/delete" in body_of(create_app(ctx).test_client(), "/models")
    finally:
        ctx.database.dispose()


FORMS = ("/runs/new", "/studies/new")


def test_forms_offer_trained_drafters_only_where_there_are_some(client, cache):
    assert all(">trained<" not in body_of(client, path).replace('"trained"', ">trained<") for path in FORMS)
    write_head(cache)
    for path in FORMS:
        page = body_of(client, path)
        assert 'value="trained"' in page
        assert 'value="sibling+trained"' in page


@pytest.mark.parametrize("drafter", ["trained", "sibling+trained"])
def test_a_run_with_a_drafter_that_is_not_there_is_refused_with_the_command(client, cache, drafter):
    body = {"target": TARGET, "drafter": drafter, "dataset": "additions", "n": 2}
    answer = client.post("/api/v1/runs", json=body)
    assert answer.status_code == 422
    assert f"bassline drafter train --target {TARGET}" in answer.get_data(as_text=True)
    assert "drafter" in answer.get_json()["detail"]


def test_another_head_is_another_engine(cache):
    from app.runs.configuration import build_engine_config
    from app.runs.schemas import RunSpec

    spec = RunSpec(target=TARGET, drafter="trained")
    configs = [build_engine_config(spec)]
    for sha256 in ("1" * 64, "2" * 64, "2" * 64):
        write_head(cache, sha256=sha256)
        configs.append(build_engine_config(spec))
    assert len(set(configs)) == 3
    assert build_engine_config(RunSpec(target=TARGET, drafter="sibling")).head == ""


def test_a_drafter_is_deleted_by_rest_and_page_and_is_gone_then(client, cache):
    client.application.config["WTF_CSRF_ENABLED"] = False
    for target in (TARGET, HUB):
        write_head(cache, target)
    assert f"Delete the drafter of {TARGET}" in body_of(client, "/models")
    assert client.delete(f"/api/v1/drafters/{TARGET}").status_code == 204
    assert client.delete(f"/api/v1/drafters/{TARGET}").status_code == 404
    assert client.post(f"/models/drafters/{slug_of(client)}/delete").status_code == 303
    assert client.get("/api/v1/drafters").json["drafters"] == []


def test_a_published_drafter_is_deleted_from_the_database(ctx, cache, bassline):
    write_head(cache)
    with ctx.database.session() as session:
        session.add(PublishedHead(target=TARGET, sha256="a" * 64, record="{}", config=b"{}", weights=b"w"))
    for code in (0, 2):
        result = bassline("drafter", "delete", "--target", TARGET)
        assert result.exit_code == code, result.output
    with ctx.database.read() as session:
        assert session.scalar(select(PublishedHead.target)) is None
