"""A trained drafter that one machine publishes reaches the workers of all others, whole or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import update

from app.core.errors import BadInputError
from app.jobs.job import CannotLoadError
from app.jobs.work.decode_job import prepare_engine
from app.language_models import heads
from app.language_models.models import PublishedHead
from app.runs.repository import get_run
from app.runs.schemas import RunSpec
from app.runs.service import submit
from decoding.config import EngineConfig
from decoding.models import trained_heads
from decoding.models.cache_folders import CONFIG, WEIGHTS
from decoding.models.errors import ModelError
from tests.fakes import FakeEngine
from tests.head_records import TARGET, write_head
from tests.integration.conftest import sqlite_when_thorough

pytestmark = [pytest.mark.slow, sqlite_when_thorough]
HERE, THERE = "here", "there"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Makes the cache of this process the cache of the machine with a name."""

    def use(name: str) -> Path:
        monkeypatch.setenv("BASSLINE_CACHE_DIR", str(tmp_path / name))
        return tmp_path / name

    return use


def train(cache: Path, weights: bytes, **changes: str) -> str:
    """Leaves a head with these weights in a cache, as a training does; returns its hash."""
    sha256 = hashlib.sha256(weights).hexdigest()
    folder = write_head(cache, sha256=sha256, **changes).parent
    (folder / CONFIG).write_text('{"block_size": 6}')
    (folder / WEIGHTS).write_bytes(weights)
    return sha256


def test_a_worker_drafts_with_the_head_that_was_published_last(ctx, machine):
    loaded: list[EngineConfig] = []
    ctx.load_engine = lambda config, on_progress: loaded.append(config) or FakeEngine()
    published = [train(machine(HERE), b"first" * 1000)]
    heads.publish_head(ctx, TARGET)
    run_id = submit(ctx, RunSpec(target=TARGET, drafter="sibling+trained", dataset="humaneval", limit=1))
    with ctx.database.read() as session:
        run = get_run(session, run_id)

    machine(THERE)
    prepare_engine(ctx, run)
    published.append(train(machine(HERE), b"second" * 1000))
    heads.publish_head(ctx, TARGET)
    machine(THERE)
    prepare_engine(ctx, run)

    assert [config.head for config in loaded] == published
    assert trained_heads.export(TARGET)[1][WEIGHTS] == b"second" * 1000
    with ctx.database.read() as session:
        assert [one.sha256 for one in heads.list_drafters(session)] == published[1:]


def test_a_head_that_arrives_damaged_leaves_the_one_that_is_there(ctx, machine):
    machine(HERE)
    train(machine(HERE), b"published")
    heads.publish_head(ctx, TARGET)
    with ctx.database.session() as session:
        session.execute(update(PublishedHead).values(weights=b"damaged"))
    before = train(machine(THERE), b"own")

    with pytest.raises(ModelError, match="has changed on its way"):
        heads.fetch_head(ctx, TARGET)
    assert trained_heads.find(TARGET).sha256 == before
    assert trained_heads.export(TARGET)[1][WEIGHTS] == b"own"
    run_id = submit(ctx, RunSpec(target=TARGET, drafter="trained", dataset="humaneval", limit=1))
    with ctx.database.read() as session:
        run = get_run(session, run_id)
    with pytest.raises(CannotLoadError, match="has changed on its way"):
        prepare_engine(ctx, run)


def test_a_head_with_the_published_hash_is_not_fetched_again(ctx, machine):
    train(machine(HERE), b"weights")
    heads.publish_head(ctx, TARGET)
    with ctx.database.session() as session:
        session.execute(update(PublishedHead).values(weights=b"would be refused"))
    heads.fetch_head(ctx, TARGET)


def test_only_what_is_there_is_published(ctx, machine):
    cache = machine(HERE)
    with pytest.raises(ModelError, match="has no trained drafter here"):
        heads.publish_head(ctx, TARGET)
    train(cache, b"weights")
    (trained_heads.get_head_folder(TARGET) / WEIGHTS).write_bytes(b"others")
    with pytest.raises(ModelError, match="has changed"):
        heads.publish_head(ctx, TARGET)


def test_a_head_that_the_machine_made_since_is_kept_until_it_is_published(ctx, machine):
    train(machine(HERE), b"published", created_at="2026-11-20T10:00:00+00:00")
    heads.publish_head(ctx, TARGET)
    newer = train(machine(THERE), b"newer", created_at="2026-11-21T10:00:00+00:00")
    heads.fetch_head(ctx, TARGET)
    assert trained_heads.find(TARGET).sha256 == newer


def test_a_record_of_another_version_hides_its_head_and_is_refused_with_a_sentence(ctx, machine):
    train(machine(HERE), b"weights")
    heads.publish_head(ctx, TARGET)
    with ctx.database.session() as session:
        session.execute(update(PublishedHead).values(record='{"unheard_of": 1}'))
    machine(THERE)
    with ctx.database.read() as session:
        assert heads.list_drafters(session) == []
    with pytest.raises(ModelError, match="has a damaged record: train or import it again"):
        heads.fetch_head(ctx, TARGET)


@pytest.mark.parametrize("name", ["x" * 501, "a\0b"])
def test_a_name_that_the_database_cannot_store_is_refused(ctx, name):
    with pytest.raises(BadInputError, match="a name that the database cannot store"):
        heads.publish_head(ctx, name)
