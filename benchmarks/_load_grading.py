"""Judging the answers of a load test after their window, as `bassline eval` does: extraction, then the sandbox."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from benchmarks._load_client import Reply
from evaluation.datasets import Task
from evaluation.extractor import Extractor
from evaluation.grading import Grader
from evaluation.load_metrics import Fate, LoadTestRequest
from evaluation.metrics import SampleOutcome
from evaluation.prompting import Mode
from evaluation.sandbox import Sandbox
from evaluation.verdicts import Status

FINISHED = ("stop", "length")  # other samples were cut off
RUN_FINISHED = "finished"  # other runs have failed or were cancelled


class Judge:
    """Judges programs; equal programs of a task are judged once in its life."""

    def __init__(self) -> None:
        """Raises SandboxUnavailableError."""
        self._grader = Grader(Sandbox.detect())
        self._extractor = Extractor()
        self._passed: dict[tuple[str, str], bool] = {}

    def select_valid_tasks(self, tasks: Sequence[Task], wanted: int) -> list[Task]:
        """The first `wanted` tasks whose own solution does not fail here: `bassline eval` does the same."""
        found: list[Task] = []
        for start in range(0, len(tasks), wanted):
            group = tasks[start : start + wanted]
            programs = [t.prompt + t.canonical_solution + (t.suffix or "") for t in group]
            self._judge(list(zip(programs, group, strict=True)))
            found += [
                task
                for program, task in zip(programs, group, strict=True)
                if not task.canonical_solution or self._passed[task.task_id, program]
            ]
            if len(found) >= wanted:
                break
        return found[:wanted]

    def judge_replies(self, replies: Sequence[Reply]) -> list[LoadTestRequest]:
        """The requests with their samples judged."""
        answers = [(reply, _get_completion(reply)) for reply in replies]
        programs = [
            [self._extract_program(reply, answer, s) for s in answer.get("samples", ())] for reply, answer in answers
        ]
        self._judge(
            [(p, reply.planned.task) for (reply, _), own in zip(answers, programs, strict=True) for p in own if p]
        )
        return [self._judge_reply(reply, answer, own) for (reply, answer), own in zip(answers, programs, strict=True)]

    def close(self) -> None:
        """End the process that reads answers."""
        self._extractor.close()

    def _extract_program(self, reply: Reply, answer: dict[str, Any], sample: dict[str, Any]) -> str:
        """The program of a finished sample, "" for another."""
        if sample["finish_reason"] not in FINISHED:
            return ""
        mode: Mode = answer["run"]["prompt_mode_used"] or "completion"
        return self._extractor.extract(reply.planned.task, sample["raw"], mode).program

    def _judge(self, items: Sequence[tuple[str, Task]]) -> None:
        new = {(task.task_id, p): (p, task) for p, task in items if (task.task_id, p) not in self._passed}
        keys = list(new)
        for position, verdict in self._grader.judge_many(list(new.values()), os.cpu_count() or 1):
            self._passed[keys[position]] = verdict.status == Status.PASSED

    def _judge_reply(self, reply: Reply, answer: dict[str, Any], programs: Sequence[str]) -> LoadTestRequest:
        planned = reply.planned
        if not answer:
            fate: Fate = "refused" if reply.fate == "refused" else "failed"
            return LoadTestRequest(planned.key, fate, retry_after_s=reply.retry_after_s, prompt=planned.task.task_id)
        samples = answer["samples"]
        budget_s = answer["run"]["budget_s"]
        ends = [budget_s if s["finish_reason"] == "deadline" else s["finished_s"] or 0.0 for s in samples]
        return LoadTestRequest(
            planned.key,
            "answered",
            samples=tuple(
                SampleOutcome(
                    planned.key,
                    sample["index"],
                    reply.late_s + sample["finished_s"] if sample["finish_reason"] in FINISHED else None,
                    sample["mean_logprob"],
                    self._passed.get((planned.task.task_id, program), False),
                    sample["n_tokens"],
                )
                for sample, program in zip(samples, programs, strict=True)
            ),
            answer_s=reply.answered_s,
            unclocked_s=max(0.0, reply.answered_s - reply.late_s - max(ends)) if ends else None,
            prompt=planned.task.task_id,
        )


def _get_completion(reply: Reply) -> dict[str, Any]:
    """The completion; {} if there is none, or if its run has failed."""
    answer = reply.document if reply.fate == "answered" else {}
    return answer if answer and answer["run"]["state"] == RUN_FINISHED else {}
