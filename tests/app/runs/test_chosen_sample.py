"""The sample that pages mark as chosen is the one that the figures count."""

from __future__ import annotations

import html
import re

import pytest

from app.runs.models import Run
from app.runs.outcomes import load_outcomes
from app.runs.presentation import choose_sample

LOGPROBS = [(None, None, None), (None, -0.5, None), (float("-inf"), -3.0, None), (-0.5, -0.5, -0.1), (0.0, -0.1, None)]


@pytest.mark.parametrize("logprobs", LOGPROBS)
def test_pages_and_figures_choose_the_same_sample(world, logprobs):
    """A sample without log-probability ranks last; without any the lower index is chosen."""
    ids = [world.add_run(name, n=3, limit=4, pace=0.1) for name in ("a", "b")]
    with world.context.database.session() as session:
        for run_id in ids:
            for task in session.get(Run, run_id).tasks:
                for sample, logprob in zip(sorted(task.samples, key=lambda s: s.index), logprobs, strict=True):
                    sample.mean_logprob, sample.finish_reason, sample.finished_s = logprob, "stop", 1.0
                    sample.verdict = "passed"
    with world.context.database.read() as session:
        runs = [session.get(Run, run_id) for run_id in ids]
        found = load_outcomes(session, runs).outcomes
        places = found.find_chosen(5.0)[0]
        assert [choose_sample(task.samples, 5.0).index for task in runs[0].tasks] == found.columns.index[
            places
        ].tolist()


def test_a_run_without_log_probabilities_counts_its_chosen_samples(world):
    run_id = world.add_run("imported", n=1, limit=5, pace=0.1)
    with world.context.database.session() as session:
        for task in session.get(Run, run_id).tasks:
            for sample in task.samples:
                sample.mean_logprob, sample.finish_reason = None, "stop"
                sample.finished_s, sample.verdict = 1.0, "passed"
    page = world.client.get(f"/runs/{run_id}?tab=tasks").get_data(as_text=True)
    assert re.search(r"Chosen sample passed\s*5\b", html.unescape(re.sub(r"<[^>]+>", " ", page)))
