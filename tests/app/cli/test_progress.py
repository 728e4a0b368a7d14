"""Progress of work in parts: a bar with its facts on a terminal, lines elsewhere, and a stop at a safe point."""

from __future__ import annotations

import io
import signal
from types import SimpleNamespace

import pytest

from app.cli import progress
from app.cli.drafter import TrainingProgress
from app.cli.progress import PartsBar
from app.core import terminal

STEP = SimpleNamespace(report=lambda *_: None, lease=SimpleNamespace(stop_reason=None))
"""An attempt at a job that nobody cancels."""


@pytest.fixture
def screen(monkeypatch):
    out = io.StringIO()
    console = terminal._Console(file=out, force_terminal=True, width=120, markup=False, color_system=None)
    monkeypatch.setattr(progress, "open_stderr", lambda: console)
    return out


def test_on_a_terminal_the_bar_names_the_part_and_its_facts(screen):
    with TrainingProgress(STEP) as shown:
        shown.stage("collecting", 10)
        shown.advance(10, "10 tokens")
        shown.stage("training", 4)
        shown.advance(1, "step 1 of 4\x1b[31m")
    assert "collecting" in screen.getvalue()
    assert "training" in screen.getvalue()
    assert r"step 1 of 4\x1b[31m, time left not known yet" in screen.getvalue()


def test_elsewhere_a_line_says_how_far_the_part_is(capsys):
    with PartsBar(every_s=0.0) as bar:
        bar.advance_to("checking", 5, 8)  # five of an earlier call
        left = [bar.advance_to("checking", done, 8) for done in (6, 8)]
        bar.tell(f"8 of 8, {left[-1]}")
    assert "checking: 8 of 8, 0:00 left" in capsys.readouterr().err


def test_a_signal_stops_a_training_at_its_next_safe_point(capsys):
    before = signal.getsignal(signal.SIGTERM)
    with TrainingProgress(STEP) as shown:
        assert not shown.should_stop()
        signal.raise_signal(signal.SIGTERM)
        assert shown.should_stop()
        assert signal.getsignal(signal.SIGTERM) is before  # a second one ends it now
    assert "stopping at the next safe point" in capsys.readouterr().err
