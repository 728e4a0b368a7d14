"""How much time would racing have saved in a finished study, and would the answer have been the same?

Replays the race over the stored samples of a study in the order of its tasks: after every few tasks, the arms that the
test drops take no further tasks. Then compares the answers of the race with the answers of the whole study.

    bassline bench racing STUDY --json racing.json
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys

from app.context import make_context
from app.provenance import of_this_process
from app.runs.repository import tasks_without_texts
from app.studies.analysis import arm_of
from app.studies.race import LOOK_EVERY
from app.studies.repository import find_study
from benchmarks._report import Report, print_table
from evaluation.studies.analysis import study_budgets
from evaluation.studies.answer import answers
from evaluation.studies.arms import Arm, common_tasks, score
from evaluation.studies.racing import budgets_of_interest, dropped


def main(argv: list[str] | None = None) -> int:
    """Replay the race, print the table, write JSON if asked; return 0."""
    options = _options(argv)
    ctx = make_context()
    with ctx.database.read() as session:
        study = find_study(session, options.study)
        arms = [arm_of(session, arm.name, arm.run) for arm in study.arms]
        seconds = {
            arm.name: {t.task.task_id: (t.wall_s or 0.0) for t in tasks_without_texts(session, arm.run_id)}
            for arm in study.arms
        }
    tasks = common_tasks(arms)
    kept = {arm.name: len(tasks) for arm in arms}
    for count in range(LOOK_EVERY, len(tasks) + 1, LOOK_EVERY):
        running = [_first(arm, tasks[:count]) for arm in arms if kept[arm.name] >= count]
        for drop in dropped(running, len(arms), budgets_of_interest(study.budget_s)):
            kept[drop.arm] = count
    report = Report("racing", str(of_this_process()["cpu"]), vars(options) | {"tasks": len(tasks)})
    for arm in arms:
        whole = math.fsum(seconds[arm.name][task] for task in tasks)
        raced = math.fsum(seconds[arm.name][task] for task in tasks[: kept[arm.name]])
        report.rows.append({"arm": arm.name, "tasks": kept[arm.name], "seconds": raced, "saved": whole - raced})
    saved, spent = (math.fsum(row[column] for row in report.rows) for column in ("saved", "seconds"))
    budgets = study_budgets(study.budget_s)
    whole_answer = answers(score(arms, budgets))
    race_answer = answers(score([arm for arm in arms if kept[arm.name] == len(tasks)], budgets))
    alike = sum(a.arm == b.arm for a, b in zip(whole_answer, race_answer, strict=True))
    report.figures = {
        "racing.saved_share": saved / (saved + spent),
        "racing.saved_s": saved,
        "racing.arms_dropped": float(sum(count < len(tasks) for count in kept.values())),
        "racing.equal_answers_share": alike / len(whole_answer),
    }
    print_table(report.rows)
    print(f"saved {saved:.0f} of {saved + spent:.0f} s; {alike} of {len(whole_answer)} answers are the same")
    report.write(options.json)
    return 0


def _first(arm: Arm, tasks: tuple[str, ...]) -> Arm:
    """The arm with the samples of these tasks only."""
    return dataclasses.replace(arm, outcomes=tuple(o for o in arm.outcomes if o.task_id in set(tasks)))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bassline bench racing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="the id, the beginning of the id, or the name of a study")
    parser.add_argument("--json", help="write the figures to this file, - for standard output")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
