"""Logs: one form for all, and no secret in any of them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable

import pytest
import structlog

from app.cli.main import CommandError
from app.core import observability
from app.core.errors import BadInputError, UnavailableError
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


def test_what_a_library_prints_and_what_ends_a_process_are_lines_too():
    program = """
import threading, time
from app.core import observability
from app.core.settings import Settings
settings = Settings(_env_file=None, log_format="json")
observability.configure(settings)
observability.redirect_stdio_to_log(settings)
print("two\\\\nlines of bass_0a1b2c3d_s3cr3tpart")
observability.configure(settings)  # as Celery does once more
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise LookupError("the end")
""".replace("\\\\", "\\")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines[:2]] == ["two", "lines of bass_0a1b2c3d_***"]
    assert [line["level"] for line in lines] == ["warning", "warning", "critical", "critical"]
    assert ["ZeroDivisionError" in lines[2]["exception"], "LookupError" in lines[3]["exception"]] == [True, True]


def test_a_line_that_is_written_in_pieces_is_one_line_of_the_log(monkeypatch):
    written = []
    monkeypatch.setattr(observability, "write_line", lambda text, _level: written.append(text))
    stream = observability._LogStream()
    print("a", "b", file=stream)
    print("10 %", end="\r", file=stream)
    print("no end", end="", file=stream)
    assert written == ["a b", "10 %"]
    stream.flush()
    assert written == ["a b", "10 %", "no end"]


@pytest.mark.parametrize(
    ("error", "level"), [(UnavailableError("the database is away"), "warning"), (BadInputError("no"), "error")]
)
def test_a_process_that_ends_because_something_is_away_logs_a_warning(monkeypatch, error, level):
    written = []
    monkeypatch.setattr(observability, "must_write_json_lines", lambda: True)
    monkeypatch.setattr(observability, "write_line", lambda *line: written.append(line))
    CommandError(error).show()
    assert written == [(str(error), level)]
