"""A run's file with one wrong value is refused in a sentence, or compared: never a fault."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner

from app.cli.main import cli
from tests.app.damage import DAMAGE, damaged, kinds


@pytest.fixture
def bassline(world, monkeypatch):
    """Runs the command line over the world; returns click's result."""
    monkeypatch.setattr("app.cli.common.make_context", lambda: world.context)
    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def base(world, bassline) -> dict:
    """The content of the file of the run `base`; there is a run `new` to compare with it."""
    for name, skill in (("base", 0.9), ("new", 0.2)):
        world.add_run(name, n=2, limit=6, skill=skill)
    return json.loads(bassline("runs", "export", "base", "--format", "run").stdout)


def test_one_wrong_value_is_refused_or_compared_and_never_a_fault(base, bassline, tmp_path):
    dice = random.Random(1)
    file = tmp_path / "base.json"
    for path in dice.sample(kinds(base), 40):
        value = dice.choice(DAMAGE)
        file.write_bytes(damaged(base, path, value))
        result = bassline("runs", "compare", file, "new", "--markdown", tmp_path / "found.md")
        assert result.exit_code in (0, 2), (path, value, result.exception, result.output)
        if result.exit_code == 2:
            assert "base.json" in result.stderr, (path, value, result.stderr)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("tasks", 0, "wall_s"), 1e308, "tasks.0.wall_s is 1e+308: "),
        (("tasks", 0, "samples", 0, "n_tokens"), -1, "tasks.0.samples.0.n_tokens is -1: "),
        (("calibrations", 0, "verify_s"), 5e-324, "calibrations.0.verify_s is 5e-324: "),
        (("run", "budget_s"), 0, "run.budget_s is 0: give"),
        (("run", "provenance", "device"), [], "device is []: "),
        (("figures", "tokens_per_s"), float("nan"), "holds nan: give a number or null"),
    ],
)
def test_what_no_run_can_have_is_one_sentence(base, bassline, tmp_path, path, value, sentence):
    file = tmp_path / "base.json"
    file.write_bytes(damaged(base, path, value))
    result = bassline("runs", "compare", file, "new")
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
