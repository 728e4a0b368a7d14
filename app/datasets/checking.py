"""Checks the canonical solutions of a dataset in the sandbox, before they exclude tasks from runs.

A check is a background job: one worker at a time does it and stores results in steps.
"""

from __future__ import annotations

import math
import time
import uuid
from typing import Any

from app.background.handlers import Handler, JobAttempt, OnProgress
from app.background.jobs import open_job
from app.background.leases import LostClaimError
from app.background.models import BackgroundJob
from app.background.work import run_job
from app.core.context import Context
from app.core.states import PASSED, SANDBOX_ERROR
from app.datasets import repository
from app.datasets.models import DatasetCheck
from app.datasets.service import to_evaluation_task
from evaluation.datasets import Task
from evaluation.verdicts import Status, Verdict

KIND = "check_dataset"
STEP_S = 2.0  # results are stored this often; a killed worker loses no more
RETRY_S = 0.5
MAX_FAULT_CHARACTERS = 300  # characters that are kept of what went wrong


class CheckDataset(Handler):
    """Runs the canonical solutions that no earlier step has judged."""

    kind = KIND

    def run(self, job: BackgroundJob, attempt: JobAttempt) -> dict[str, Any]:
        """Judges what is left, and stores a step at a time."""
        ctx, grader = attempt.ctx, attempt.ctx.make_grader()
        dataset_id = uuid.UUID(job.arguments["dataset_id"])
        with ctx.database.read() as session:
            tasks = [
                to_evaluation_task(t) for t in repository.get_dataset(session, dataset_id).tasks if t.canonical_solution
            ]
        # Status and fault by task; [] where the solution passes.
        judged: dict[str, list[str]] = attempt.cursor.setdefault("judged", {})
        left = [task for task in tasks if task.task_id not in judged]
        programs = [(task.build_program(task.canonical_solution), task) for task in left]
        if left:
            job.message = _describe_next(left[0])
        for position, verdict in grader.judge_many(programs, ctx.settings.exec_workers):
            passed = verdict.status == PASSED
            judged[left[position].task_id] = [] if passed else [verdict.status, _describe_fault(verdict)]
            attempt.report(len(judged), len(tasks), job.message)
            if (attempt.seconds_since_save >= STEP_S and len(judged) < len(tasks)) or ctx.stopping.is_set():
                job.message = _describe_next(next((task for task in left if task.task_id not in judged), left[-1]))
                attempt.save()
        faults = {task.task_id: judged[task.task_id] for task in tasks if judged[task.task_id]}
        if not any(status == SANDBOX_ERROR for status, _ in faults.values()):  # which says nothing about the dataset
            check = DatasetCheck(dataset_id=dataset_id, sandbox=grader.sandbox, failed=list(faults))
            attempt.on_finish = lambda session: session.add(check)
        return {"failed": list(faults), "faults": faults}

    def describe_loss(self, job: BackgroundJob) -> str:
        """How far it came, and with which solution its workers were lost."""
        return (
            f"checked the canonical solutions of {job.subject}: {job.done} of {job.total} are checked, "
            f"{job.message.rpartition(': ')[2]}, which runs may leave out"
        )


def _describe_next(task: Task) -> str:
    return f"canonical solutions: the next one is {task.task_id}"


def _describe_fault(verdict: Verdict) -> str:
    """The first line of what went wrong: of a compiler's errors, or of the verdict."""
    text = verdict.traceback if verdict.status == Status.COMPILE_ERROR and verdict.traceback else verdict.detail
    return text.strip().partition("\n")[0][:MAX_FAULT_CHARACTERS]


def check_solutions(
    ctx: Context, dataset_id: uuid.UUID, on_progress: OnProgress = lambda *_: None
) -> dict[str, list[str]]:
    """As `check_solutions_within`, without a time limit; waits while another worker checks."""
    while True:
        try:
            return check_solutions_within(ctx, dataset_id, on_progress)
        except LostClaimError:
            time.sleep(RETRY_S)


def check_solutions_within(
    ctx: Context,
    dataset_id: uuid.UUID,
    on_progress: OnProgress = lambda *_: None,
    *,
    turn_s: float = math.inf,
) -> dict[str, list[str]]:
    """The tasks whose own solution fails in this sandbox, with status and fault where this check judged them.

    They are checked once per dataset content and sandbox; a task without a canonical solution counts as fine. Goes on
    where an earlier attempt stopped. Raises NotFoundError for an unknown dataset, and as `run_job` does.
    """
    sandbox = ctx.make_grader().sandbox
    with ctx.database.read() as session:
        dataset = repository.get_dataset(session, dataset_id)
        checks = repository.load_checks(session, dataset_id)
    for known in checks:
        if known.sandbox == sandbox:
            return {task_id: [] for task_id in known.failed}
    arguments = {"dataset_id": str(dataset_id)}
    job_id = open_job(ctx, KIND, dataset.name, key=f"{dataset_id} {sandbox}", arguments=arguments)
    faults: dict[str, list[str]] = run_job(ctx, job_id, turn_s=turn_s, on_progress=on_progress)["faults"]
    return faults
