"""What users and models wrote is shown on a terminal, never obeyed: no markup, no escape sequence, no hidden mark."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest
import structlog
from click.testing import CliRunner

from app.cli import progress
from app.cli.main import cli
from app.core import observability, terminal
from app.core.settings import Settings

HOSTILE = "[/x] [red]y :smile: \x1b[31m\x9b31m\u202e\u2066\x07\r\ud800\u2028end"
SHOWN = r"[/x] [red]y :smile: \x1b[31m\x9b31m\u202e\u2066\x07\r\ud800\u2028end"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STORABLE = HOSTILE.replace("\ud800", "")


@pytest.fixture
def bassline(ctx, additions, monkeypatch):
    for module in ("app.cli.common", "app.cli.admin"):
        monkeypatch.setattr(f"{module}.make_context", lambda: ctx)
    return lambda *words: CliRunner().invoke(cli, list(words), env={"COLUMNS": "400"})


def test_what_could_steer_a_terminal_is_written_out():
    assert terminal.escape_control(HOSTILE) == SHOWN
    assert terminal.escape_control("a\tb\nc é 日本 🙂") == "a\tb\nc é 日本 🙂"


def test_a_name_with_markup_and_escape_sequences_breaks_no_command_and_reaches_no_terminal(bassline):
    made = bassline(
        "eval", "--target", "smollm2-135m", "--dataset", "additions", "--n", "2", "--budget", "5", "--name", STORABLE
    )
    assert made.exit_code == 0, made.output
    run_id = json.loads(bassline("runs", "list", "--json", "-").stdout)[0]["run"]["id"]
    outputs = [made, bassline("runs", "list"), bassline("leaderboard"), bassline("runs", "show", run_id)]
    outputs.append(bassline("runs", "compare", run_id, run_id))
    outputs.append(bassline("runs", "delete", run_id))
    outputs.append(bassline("runs", "show", STORABLE))
    for result in outputs:
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert not UNSAFE.search(result.output)
        assert "[/x]" in result.output
        assert "\\x1b[31m" in result.output


def test_model_output_and_verdicts_reach_the_terminal_as_text(bassline, ctx, engine, tmp_path):
    make = engine._sample

    def hostile(request, i, cancelled):
        sample = make(request, i, cancelled)
        sample.text += "# " + STORABLE
        return sample

    engine._sample = hostile
    prompt = tmp_path / "prompt.py"
    prompt.write_text("def add(a, b):\n")
    load = ctx.load_engine

    def telling(config, on_progress):
        on_progress("loading " + STORABLE)
        return load(config, on_progress)

    ctx.load_engine = telling
    result = bassline("complete", str(prompt), "--target", "smollm2-135m", "--n", "2")
    assert result.exit_code == 0, result.output
    assert not UNSAFE.search(result.output)
    assert result.stdout.count(r"[/x] [red]y :smile: \x1b[31m\x9b31m") == 2
    assert "loading [/x]" in result.stderr


def test_errors_and_tracebacks_reach_the_terminal_as_text(bassline, ctx):
    def broken(config, on_progress):
        raise OSError(STORABLE)

    ctx.load_engine = broken
    result = bassline("eval", "--target", "smollm2-135m", "--dataset", "additions")
    assert result.exit_code == 1
    assert r"\x1b[31m\x9b31m\u202e" in result.stderr
    assert not UNSAFE.search(result.output)


def test_the_progress_bar_takes_a_message_for_text(bassline, ctx, monkeypatch):
    out = io.StringIO()
    console = terminal._Console(file=out, force_terminal=True, width=400, markup=False, color_system=None)
    monkeypatch.setattr(progress, "open_stderr", lambda: console)
    load = ctx.load_engine

    def telling(config, on_progress):
        on_progress("loading " + STORABLE)
        return load(config, on_progress)

    ctx.load_engine = telling
    result = bassline("eval", "--target", "smollm2-135m", "--dataset", "additions", "--n", "2")
    assert result.exit_code == 0, result.output
    assert "\x1b[31m" not in out.getvalue()
    assert "\u202e" not in out.getvalue()


def test_a_log_line_is_one_line_without_escape_sequences(capsys):
    before = logging.getLogger().handlers[:]
    try:
        observability.configure(Settings(_env_file=None, log_level="warning"))
        try:
            raise ValueError("\x1b[31mred")
        except ValueError:
            structlog.get_logger("test").exception("fault", name=HOSTILE + "\nfault forged=yes")
    finally:
        logging.getLogger().handlers[:] = before
    text = capsys.readouterr().err
    assert not UNSAFE.search(text)
    assert "\nfault forged" not in text
    assert "\nValueError: " in text
