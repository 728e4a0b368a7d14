"""Logs: one form for all, and no secret in any of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest
import structlog

from app.core import observability
from app.core.settings import Settings

SECRETS = ("hunter2", "s3cr3tpart", "abc.def")


@pytest.fixture
def log(capsys):
    """Configures this process's logs; the test session's own come back afterwards. Call the result to read them."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def configure(form: str) -> Callable[[], str]:
        observability.configure(Settings(_env_file=None, log_level="info", log_format=form))
        return lambda: capsys.readouterr().err

    yield configure
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.mark.parametrize("form", ["console", "json"])
def test_secrets_are_never_written(log, form):
    written = log(form)
    ours = structlog.get_logger("ours")
    ours.warning("connecting", url="postgresql+psycopg://me:hunter2@db/x", password="hunter2", n_tokens=5)
    ours.warning("asked", header="Bearer abc.def", token="bass_0a1b2c3d_s3cr3tpart")
    logging.getLogger("kombu").warning("no connection to redis://:hunter2@redis:6379/0")
    try:
        raise ValueError("bass_0a1b2c3d_s3cr3tpart is not known")
    except ValueError:
        ours.exception("failed")
    text = written()
    assert not any(secret in text for secret in SECRETS)
    assert "bass_0a1b2c3d_***" in text
    assert "postgresql+psycopg://me:***@db/x" in text
    assert "5" in text.splitlines()[0]  # a number of tokens is not a secret


def test_a_library_s_lines_have_our_form(log):
    written = log("json")
    logging.getLogger("kombu").warning("lost %s", "it")
    structlog.get_logger("ours").info("done", run="1")
    theirs, ours = map(json.loads, written().splitlines())
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("lost it", "warning", "kombu")
    assert (ours["event"], ours["run"]) == ("done", "1")
    assert theirs.keys() >= {"timestamp"} <= ours.keys()
