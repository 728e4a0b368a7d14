"""Progress of jobs: a bar with its facts on a terminal, lines elsewhere, and a stop at a safe point."""

from __future__ import annotations

import io
import signal

import pytest

from app.cli import progress
from app.cli.drafter import stop_at_signals
from app.cli.progress import JobBar
from app.core import terminal


@pytest.fixture
def screen(monkeypatch):
    out = io.StringIO()
    console = terminal._Console(file=out, force_terminal=True, width=120, markup=False, color_system=None)
    monkeypatch.setattr(progress, "open_stderr", lambda: console)
    return out


def test_on_a_terminal_the_bar_names_the_part_and_its_facts(screen):
    with JobBar() as bar:
        bar.report(0, 0, "running the tests: 3 s")
        bar.report(10, 10, "tokens of text")
        bar.report(1, 4, "steps: right\x1b[31m")
    assert "running the tests" in screen.getvalue()
    assert "tokens of text" in screen.getvalue()
    assert r"1 of 4, right\x1b[31m, time left not known yet" in screen.getvalue()


def test_elsewhere_a_line_says_how_far_the_part_is(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with JobBar() as bar:
        for done in (5, 6, 8):  # five of an earlier call
            bar.report(done, 8, "functions")
        bar.report(0, 0, "running the tests: 3 s")
    assert "functions: 8 of 8, 0:00 left\nrunning the tests: 3 s\n" in capsys.readouterr().err


def test_a_signal_stops_a_training_at_its_next_safe_point(capsys):
    before = signal.getsignal(signal.SIGTERM)
    with JobBar() as bar, stop_at_signals(bar) as stopped:
        assert not stopped.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stopped.is_set()
        assert signal.getsignal(signal.SIGTERM) is before  # a second one ends it now
    assert "stopping at the next safe point" in capsys.readouterr().err
