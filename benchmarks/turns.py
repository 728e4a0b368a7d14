"""What does taking turns cost a study, against running its arms one after the other?

The same arms decode the same tasks as a study, and as ordinary runs one after the other, both in this process, over a
fresh database. A figure is the time from the first task's start to the last verdict, so that the first loading of the
engines is left out; for the ordinary runs it is the sum over them. The order of the two ways changes with each
repetition. Ratios are computed per repetition.

    bassline bench turns --target smollm2-135m --tasks 12 --json turns.json
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import select

import app.domains  # noqa: F401 (registers the policies)
from app.context import Context, make_context
from app.jobs.embedded import Embedded
from app.provenance import of_this_process
from app.runs import service as runs
from app.runs.models import Run, RunTask
from app.settings import Settings
from app.states import OPEN_RUN_STATES, RunState
from app.studies import service as studies
from app.studies.repository import get_study
from app.studies.schemas import StudySpec
from benchmarks._report import Report, print_table

POLL_S = 0.2


def main(argv: list[str] | None = None) -> int:
    """Run both ways, print the table, write JSON if asked; return 0."""
    options = _options(argv)
    arms = [(drafter, int(n)) for drafter in options.drafters.split(",") for n in options.n.split(",")]
    spec = StudySpec(
        arms=tuple({"target": options.target, "drafter": d, "n": n, "max_tokens": options.max_tokens} for d, n in arms),
        limit=options.tasks,
        budget_s=options.budget,
    )
    report = Report("turns", str(of_this_process()["cpu"]), vars(options) | {"load": os.getloadavg()[0]})
    with tempfile.TemporaryDirectory() as folder:
        ctx = make_context(Settings(_env_file=None, data_dir=Path(folder)))
        with Embedded(ctx, "bench", foreground=True):
            ways: dict[str, Callable[[Context, StudySpec], float]] = {"in turn": _in_turn, "one by one": _one_by_one}
            ratios = []
            for repetition in range(options.repetitions):
                order = list(ways) if repetition % 2 == 0 else list(ways)[::-1]
                seconds = {way: ways[way](ctx, spec) for way in order}
                ratios.append(seconds["in turn"] / seconds["one by one"])
                report.rows.append({"repetition": repetition + 1, **seconds, "ratio": ratios[-1]})
                print(f"repetition {repetition + 1} of {options.repetitions} done", file=sys.stderr)
    report.figures["turns.overhead"] = statistics.median(ratios) - 1
    report.figures["turns.overhead_min"], report.figures["turns.overhead_max"] = min(ratios) - 1, max(ratios) - 1
    print_table(report.rows)
    report.write(options.json)
    return 0


def _in_turn(ctx: Context, spec: StudySpec) -> float:
    study_id = studies.submit(ctx, spec, pinned_worker=ctx.worker_name)
    with ctx.database.read() as session:
        run_ids = [run.id for run in get_study(session, study_id).runs]
    _wait(ctx, run_ids)
    return _span(ctx, run_ids)


def _one_by_one(ctx: Context, spec: StudySpec) -> float:
    total = 0.0
    for one in spec.run_specs():
        run_id = runs.submit(ctx, one, pinned_worker=ctx.worker_name)
        _wait(ctx, [run_id])
        total += _span(ctx, [run_id])
    return total


def _wait(ctx: Context, run_ids: Sequence[uuid.UUID]) -> None:
    """Wait until the runs have ended. Raise RuntimeError if one has not finished."""
    while True:
        with ctx.database.read() as session:
            states = session.execute(select(Run.state, Run.error).where(Run.id.in_(run_ids))).all()
        if all(state not in OPEN_RUN_STATES for state, _ in states):
            break
        time.sleep(POLL_S)
    for state, error in states:
        if state is not RunState.FINISHED:
            raise RuntimeError(f"a run ended as {state}: {error}")


def _span(ctx: Context, run_ids: Sequence[uuid.UUID]) -> float:
    """Seconds from the start of the first task to the end of the last."""
    with ctx.database.read() as session:
        rows = session.execute(
            select(RunTask.queued_at, RunTask.queue_s, RunTask.finished_at).where(RunTask.run_id.in_(run_ids))
        ).all()
    starts = [queued.timestamp() + (waited or 0.0) for queued, waited, _ in rows]
    ends = [finished.timestamp() for _, _, finished in rows if finished is not None]
    return max(ends) - min(starts)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bassline bench turns", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="qwen2.5-coder-0.5b", help="a model's key, hf:owner/name or a folder")
    parser.add_argument("--drafters", default="none,sibling", help="arms are each drafter with each n")
    parser.add_argument("--n", default="1,8", help="samples per task")
    parser.add_argument("--tasks", type=int, default=8, help="tasks of HumanEval (default 8)")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds per task (default 10)")
    parser.add_argument("--max-tokens", type=int, default=512, help="tokens a sample at most (default 512)")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--json", help="write the figures to this file, - for standard output")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
