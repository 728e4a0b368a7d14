"""`bassline ...` whose sandbox takes its time for each solution, under a hard limit of Celery that is shorter.

The step in which results are stored is shorter in proportion. Celery's spawned children run this module again, up to
the last line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from app.cli.main import main
from app.core.broker.celery_app import celery_app
from app.core.context import make_context, set_current
from app.datasets import checking
from evaluation.datasets import Task
from evaluation.verdicts import Verdict
from tests.fakes import FakeGrader
from tests.integration.chaos.script import note


class SlowGrader(FakeGrader):
    def judge_many(self, items: Sequence[tuple[str, Task]], workers: int) -> Iterator[tuple[int, Verdict]]:
        note("start")
        for position, verdict in super().judge_many(items, workers):
            time.sleep(float(os.environ["BASSLINE_TEST_SOLUTION_S"]))
            note("check", task=items[position][1].task_id)
            yield position, verdict


checking.STEP_S = 0.5
celery_app.conf.task_time_limit = int(os.environ["BASSLINE_TEST_HARD_LIMIT_S"])
context = make_context()
context.make_grader = SlowGrader
set_current(context)

if __name__ == "__main__":
    main()
