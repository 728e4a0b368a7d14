"""No file and no answer gives a sample that was cut off a time that looks like an end within the budget."""

from __future__ import annotations

import gzip
import json

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from app.cli.main import cli
from app.runs.repository import find_run
from app.samples.models import Sample
from app.studies import loading

SLOW = {"n": 2, "limit": 3, "pace": 7.0}


@pytest.fixture
def bassline(world, monkeypatch):
    """What a command writes to standard output."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False).stdout


@pytest.fixture
def study(world):
    """A study of two arms, of each of which the deadline cut some samples, just within the budget."""
    study_id = world.add_study(SLOW | {"name": "a"}, SLOW | {"name": "b"}, name="which")
    with world.context.database.session() as session:
        cut = update(Sample).where(Sample.finish_reason == "deadline")
        assert session.execute(cut.values(finished_s=9.99)).rowcount > 0
        session.execute(update(Sample).values(trust="proxy"))
    return study_id


def ends(samples) -> set[tuple[bool, bool]]:
    """(whether it was cut off, whether it has no time of its end) of the samples."""
    return {(sample["finish_reason"] == "deadline", sample["finished_s"] is None) for sample in samples}


def test_a_sample_that_was_cut_off_has_no_end_wherever_it_is_read(world, study, bassline):
    with world.context.database.read() as session:
        run_id = find_run(session, "a").id
    rest = world.client.get(f"/api/v1/runs/{run_id}/samples").json["samples"]
    exported = [json.loads(line) for line in bassline("runs", "export", run_id, "--format", "samples").splitlines()]
    run_file = json.loads(bassline("runs", "export", run_id, "--format", "run"))
    answer = world.client.get(f"/api/v1/studies/{study}/export?format=archive")
    archived = json.loads(gzip.decompress(answer.data))["arms"][0]
    for samples in (
        rest,
        exported,
        *([s for t in file["tasks"] for s in t["samples"]] for file in (run_file, archived)),
    ):
        assert ends(samples) == {(False, False), (True, True)}
    described = world.client.get("/api/v1/openapi.json").json["components"]["schemas"]["SampleDocument"]
    assert "null for a sample that was cut off" in described["properties"]["finished_s"]["description"]


def test_an_archive_gives_the_same_figures_again(world, study):
    archive = world.client.get(f"/api/v1/studies/{study}/export?format=archive").data
    before = world.client.get(f"/api/v1/studies/{study}").json["answer"]
    world.client.delete(f"/api/v1/studies/{study}")
    assert loading.load_study(world.context, archive, "which.json.gz") == study
    assert world.client.get(f"/api/v1/studies/{study}").json["answer"] == before
