"""The figures of a run count what they say."""

from __future__ import annotations

from app.core.states import SANDBOX_ERROR
from app.runs.figures import compute_figures
from app.runs.models import Run


def test_a_task_without_verdicts_is_no_fault_of_the_sandbox(world):
    """A completion that no worker began in time has samples that nobody judged."""
    with world.context.database.session() as session:
        run = session.get(Run, world.add_run("one", limit=3))
        unjudged, failed, _ = run.tasks
        for sample in unjudged.samples:
            sample.verdict = None
        failed.samples[0].verdict = SANDBOX_ERROR
        figures = compute_figures(run, run.tasks)
        assert (figures.tasks, figures.tasks_sandbox_error) == (1, 1)
