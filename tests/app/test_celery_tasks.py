"""Tasks that beat sends again and again."""

from __future__ import annotations

import logging

import pytest
from celery import Celery
from celery.app.trace import build_tracer
from sqlalchemy.exc import OperationalError

from app.jobs import celery_tasks


@pytest.mark.parametrize(("task", "works"), [("reap", "app.jobs.reaper.reap"), ("sweep", "app.jobs.retention.sweep")])
@pytest.mark.parametrize(("fault", "level"), [("away", logging.INFO), ("broken", logging.ERROR)])
def test_a_database_that_is_away_is_no_error_of_a_sweep(monkeypatch, caplog, ctx, task, works, fault, level):
    def fail(_: object) -> None:
        raise OperationalError("SELECT 1", {}, OSError("no server")) if fault == "away" else ValueError("broken")

    monkeypatch.setattr(works, fail)
    monkeypatch.setattr(celery_tasks, "current", lambda: ctx)
    traced = getattr(celery_tasks, task)
    caplog.set_level(logging.INFO, "celery.app.trace")
    build_tracer(traced.name, traced, app=Celery(set_as_current=False))("an-id", (), {}, {})
    assert [record.levelno for record in caplog.records if record.name == "celery.app.trace"] == [level]
