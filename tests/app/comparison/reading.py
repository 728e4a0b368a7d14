"""Pages of an overlay as words, and runs with chosen verdicts."""

from __future__ import annotations

import html
import re
import uuid

from sqlalchemy import select

from app.comparison import loading
from app.comparison.loading import Overlay
from app.runs.models import RunTask

PASSED, WRONG = ("passed", None, 1.5, -0.1), ("wrong_answer", "no", 1.0, -0.3)


def text_of(answer, status: int = 200) -> str:
    """The words of a page with this status."""
    assert answer.status_code == status, answer.get_data(as_text=True)[:600]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.get_data(as_text=True))))


def address(*run_ids, view: str = "", **query) -> str:
    """The address of an overlay of these runs."""
    words = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/overlay/{','.join(map(str, run_ids))}{view}" + (f"?{words}" if words else "")


def judge(world, run_id: uuid.UUID, task: int, *samples: tuple) -> None:
    """Gives the first samples of a task these (verdict, detail, seconds, log-probability), and ends the others late."""
    with world.context.database.session() as session:
        row = session.scalars(select(RunTask).where(RunTask.run_id == run_id, RunTask.position == task)).one()
        for sample in row.samples:
            sample.finish_reason, sample.verdict, sample.verdict_detail = "deadline", "wrong_answer", None
        for sample, (verdict, detail, finished_s, logprob) in zip(row.samples, samples, strict=False):
            sample.finish_reason, sample.verdict, sample.verdict_detail = "stop", verdict, detail
            sample.finished_s, sample.mean_logprob = finished_s, logprob


def lay_over(world, *run_ids: uuid.UUID | str) -> Overlay:
    """An overlay of these runs, with what tells failures apart."""
    with world.context.database.read() as session:
        return loading.load_overlay(session, [uuid.UUID(str(run_id)) for run_id in run_ids], details=True)
