"""A completion as pages show it: a lane for each sample with its answer, and the times that drive its replay."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from sqlalchemy.orm import Session

from app.completions.models import CompletionRun
from app.core.db.storable import restore_original_text
from app.core.errors import NotFoundError
from app.core.states import OPEN_RUN_STATES, PASSED
from app.datasets.models import Task
from app.datasets.service import to_evaluation_task
from app.runs import presentation, repository
from app.runs.figures import get_finish_time
from app.runs.models import Run, RunTask
from app.samples.models import Sample
from app.samples.origins import cut_pieces, iterate_tokens
from app.web.ui.display import escape_plain, highlight_source, strip_prompt
from evaluation.extractor import Extractor

FENCE = "\n```"  # ends an answer to a chat prompt; no part of the code
extractor = Extractor()


def _build_answer(run: Run, task: Task, sample: Sample) -> tuple[Markup | None, Markup]:
    """(program, text) as HTML: the program that was judged, or would be, "" where the text holds none.

    None for an unfinished sample, and for an answer to a prompt that defines no function.
    """
    pieces = cut_pieces(sample.raw, sample.ends or [], sample.origins)
    text = highlight_source(sample.raw.removesuffix(FENCE), pieces, task.language)
    if get_finish_time(sample) is None:
        return None, text
    program = sample.program
    if program is None and task.entry_point:
        mode = run.prompt_mode_used or "completion"
        program = extractor.extract(to_evaluation_task(task), restore_original_text(sample.raw), mode).program  # type: ignore[arg-type]
    shown = None if program is None else strip_prompt(program, task.prompt, task.language, pieces)
    return shown, text


REPLAYED_CHARACTERS = 4000  # of each sample: more than its lane shows without scrolling


@dataclass(frozen=True)
class Lane:
    """A sample; `rank` by mean log-probability, None if it did not finish. `replay` is what the script moves it by."""

    square: presentation.SampleSquare
    rank: int | None
    program: Markup | None
    text: Markup
    replay: dict[str, Any]


@dataclass(frozen=True)
class CompletionView:
    """A completion, or plain decoding beside it; the first lane is the answer to look at."""

    run: CompletionRun
    row: RunTask
    lanes: list[Lane]

    @property
    def open(self) -> bool:
        """Whether it is still to be decoded or judged."""
        return self.run.state in OPEN_RUN_STATES

    @property
    def ended(self) -> list[tuple[float, Sample]]:
        """The samples that finished within the budget and the seconds that took, the earliest first."""
        samples = sorted((lane.square.row for lane in self.lanes), key=lambda sample: sample.index)
        ended = [(end, sample) for sample in samples if (end := get_finish_time(sample)) is not None]
        return sorted(ended, key=lambda each: each[0])

    @property
    def passed(self) -> int:
        """How many of those pass the test."""
        return sum(sample.verdict == PASSED for _, sample in self.ended)

    @property
    def tokens(self) -> int:
        """Of all samples."""
        return sum(lane.square.row.n_tokens for lane in self.lanes)

    @property
    def length_s(self) -> float:
        """Seconds until its last sample ended, on its clock; 0 without samples."""
        return max((lane.replay["end"] for lane in self.lanes), default=0.0)


def require_completion(session: Session, run_id: uuid.UUID) -> CompletionRun:
    """A run that is a completion. Raises NotFoundError."""
    run = repository.get_run(session, run_id)
    if not isinstance(run, CompletionRun):
        raise NotFoundError(f"run {run.id} is not a completion: open it under Runs")
    return run


def load_completion_view(session: Session, run_id: uuid.UUID) -> CompletionView:
    """A completion and its lanes by rank, the chosen sample first.

    Raises NotFoundError for a run that is not a completion.
    """
    run = require_completion(session, run_id)
    row = repository.load_tasks_with_samples(session, run.id, origins=True)[0]
    squares = presentation.build_squares(row.samples)
    ranks = presentation.rank_samples(squares)
    squares.sort(key=lambda square: (not square.chosen, ranks.get(square.row.index, math.inf)))
    lanes = [
        Lane(one, ranks.get(one.row.index), *_build_answer(run, row.task, one.row), _build_replay(row, one.row))
        for one in squares
    ]
    return CompletionView(run, row, lanes)


def _build_replay(row: RunTask, sample: Sample) -> dict[str, Any]:
    """`first` and `end` in seconds, between which the page spreads the `n_tokens` evenly.

    `tokens` are [origin, text] pairs within the first REPLAYED_CHARACTERS. Without their ends, as of a remote model, a
    sample appears whole when it ends.
    """
    end = get_finish_time(sample) or sample.finished_s or row.wall_s or 0.0
    text = escape_plain(sample.raw.removesuffix(FENCE))[:REPLAYED_CHARACTERS]
    return {
        "first": (sample.first_token_s or 0.0) if sample.ends else end,
        "end": end,
        "n_tokens": sample.n_tokens,
        "tokens": [piece for piece in iterate_tokens(text, sample.ends or [], sample.origins) if piece[1]],
    }
