"""Figures come back from the database as they were written, whichever version wrote them."""

from __future__ import annotations

from sqlalchemy import text

from app.runs.documents import dump_run
from app.runs.models import Run
from app.runs.results import NO_FIGURES, Figures
from app.runs.service import submit


def test_figures_of_an_older_or_a_newer_version_keep_their_keys(ctx, spec):
    run_id = submit(ctx, spec(), handover=True)
    with ctx.database.session() as session:
        assert session.get(Run, run_id).measured == NO_FIGURES
        session.execute(text("""UPDATE runs SET figures = '{"pass_first": 0.5, "of_tomorrow": 1}'"""))
    with ctx.database.read() as session:
        run = session.get(Run, run_id)
        assert (run.figures.pass_first, run.figures.pass_all) == (0.5, None)
        assert dump_run(run)["figures"] == {"pass_first": 0.5, "of_tomorrow": 1}


def test_figures_are_stored_without_those_that_were_never_set(ctx, spec):
    run_id = submit(ctx, spec(), handover=True)
    with ctx.database.session() as session:
        session.get(Run, run_id).figures = Figures(tasks=3, pass_first_interval=(0.25, 0.75), pass_all=None)
    with ctx.database.read() as session:
        stored = session.execute(text("SELECT figures FROM runs")).scalar_one()
        assert stored.replace(" ", "") == '{"tasks":3,"pass_first_interval":[0.25,0.75],"pass_all":null}'
        assert session.get(Run, run_id).figures.pass_first_interval == (0.25, 0.75)
