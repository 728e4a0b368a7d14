"""The form for a new run starts from exactly the configuration of an earlier one."""

from __future__ import annotations

from app.runs.forms import build_form_values
from app.runs.repository import get_run
from app.runs.schemas import RunSpec


def test_numbers_of_an_earlier_run_keep_all_their_digits(world):
    run_id = world.add_run("long", limit=1)
    with world.context.database.read() as session:
        run = get_run(session, run_id)
        run.time_limit_s, run.temperature, run.budget_s = 1234567.0, 0.1234567, 5.0
        values = build_form_values(RunSpec, run)
    assert (values["time_limit_s"], values["temperature"], values["budget_s"]) == ("1234567", "0.1234567", "5")
