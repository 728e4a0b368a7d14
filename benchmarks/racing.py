"""How much time would racing have saved in a finished study, and would the answer have been the same?

Replays the race over the stored samples of a study in the order of its tasks: after every few tasks, the arms that the
test drops take no further tasks. Then compares the answers of the race with the answers of the whole study.

    bassline bench racing STUDY --json racing.json
"""

from __future__ import annotations

import argparse
import math
import sys

from app.core.context import make_context
from app.core.provenance import of_this_process
from app.runs.outcomes import read_tasks
from app.studies.analysis import compare_named_runs
from app.studies.race import LOOK_EVERY
from app.studies.repository import find_study
from benchmarks._report import Report, print_table
from evaluation.studies.analysis import study_budgets
from evaluation.studies.answer import answer_at
from evaluation.studies.racing import budgets_of_interest, dropped


def main(argv: list[str] | None = None) -> int:
    """Replay the race, print the table, write JSON if asked; return 0."""
    options = _options(argv)
    ctx = make_context()
    with ctx.database.read() as session:
        study = find_study(session, options.study)
        arms = compare_named_runs(session, {arm.name: arm.run for arm in study.arms}, study.budget_s)
        seconds = {
            arm.name: {t.task.task_id: (t.wall_s or 0.0) for t in read_tasks(session, arm.run_id)} for arm in study.arms
        }
    if arms is None:
        raise SystemExit("the arms of this study have no graded task in common")
    tasks, places = arms.task_ids, range(len(arms.arms))
    kept = dict.fromkeys((arm.name for arm in arms.arms), len(tasks))
    for count in range(LOOK_EVERY, len(tasks) + 1, LOOK_EVERY):
        running = [place for place in places if kept[arms.arms[place].name] >= count]
        first = arms.select(running, study.budget_s, count)
        for drop in dropped(first, len(arms.arms), budgets_of_interest(study.budget_s)):
            kept[drop.arm] = count
    report = Report("racing", str(of_this_process()["cpu"]), vars(options) | {"tasks": len(tasks)})
    for arm in arms.arms:
        whole = math.fsum(seconds[arm.name][task] for task in tasks)
        raced = math.fsum(seconds[arm.name][task] for task in tasks[: kept[arm.name]])
        report.rows.append({"arm": arm.name, "tasks": kept[arm.name], "seconds": raced, "saved": whole - raced})
    saved, spent = (math.fsum(row[column] for row in report.rows) for column in ("saved", "seconds"))
    last = arms.select([place for place in places if kept[arms.arms[place].name] == len(tasks)], study.budget_s)
    budgets = study_budgets(study.budget_s)
    alike = sum(answer_at(arms, budget).arm == answer_at(last, budget).arm for budget in budgets)
    report.figures = {
        "racing.saved_share": saved / (saved + spent),
        "racing.saved_s": saved,
        "racing.arms_dropped": float(sum(count < len(tasks) for count in kept.values())),
        "racing.equal_answers_share": alike / len(budgets),
    }
    print_table(report.rows)
    print(f"saved {saved:.0f} of {saved + spent:.0f} s; {alike} of {len(budgets)} answers are the same")
    report.write(options.json)
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bassline bench racing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="the id, the beginning of the id, or the name of a study")
    parser.add_argument("--json", help="write the figures to this file, - for standard output")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
