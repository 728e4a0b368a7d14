"""A completion as pages show it: a lane for each sample with its answer, and the times that drive its replay."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
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
from app.samples.origins import Piece, cut_pieces, iterate_tokens, locate_program_origins
from app.web.ui.display import escape_plain, highlight_source
from app.web.ui.units import format_count
from evaluation.extractor import Extractor

FENCE = "\n```"  # ends an answer to a chat prompt; no part of the code
extractor = Extractor()


@dataclass(frozen=True)
class RenderedAnswer:
    """An answer as HTML. `program` is "" where the text holds none, and None where nothing says what to look for."""

    program: Markup | None
    text: Markup


def build_sample_answer(run: Run, task: Task, sample: Sample) -> RenderedAnswer:
    """The answer of a stored sample: the program that was judged, or would be; of an unfinished one only the text."""
    text = cut_pieces(sample.raw, sample.ends or [], sample.origins)
    if get_finish_time(sample) is None:
        return RenderedAnswer(None, _highlight_origins(text, task.language))
    return build_text_answer(run, task, text, sample.program)


def build_text_answer(run: Run, task: Task, text: Sequence[Piece], program: str | None = None) -> RenderedAnswer:
    """The answer in a text, given in pieces by origin; `program` is what was extracted from it, if anything was.

    Nothing is looked for in an answer to a prompt that defines no function.
    """
    raw = "".join(part for _, part in text)
    if program is None and task.entry_point:
        mode = run.prompt_mode_used or "completion"
        program = extractor.extract(to_evaluation_task(task), restore_original_text(raw), mode).program  # type: ignore[arg-type]
    shown_program = None if program is None else _strip_prompt(program, task, text)
    return RenderedAnswer(shown_program, _highlight_origins(text, task.language))


def _highlight_origins(text: Sequence[Piece], language: str) -> Markup:
    return highlight_source("".join(part for _, part in text).removesuffix(FENCE), text, language)


def _strip_prompt(program: str, task: Task, text: Sequence[Piece]) -> Markup:
    """The program; only what follows the prompt where the text continues that, since it stands on the page already."""
    prompt = task.prompt
    if not program.startswith(prompt) or prompt.strip() in "".join(part for _, part in text):
        return highlight_source(program, locate_program_origins(program, text), task.language)
    rest = program[len(prompt) :]
    note = Markup('<span class="given">… {} of the prompt</span>\n').format(
        format_count(len(prompt.splitlines()), "line")
    )
    return note + highlight_source(rest, locate_program_origins(rest, text), task.language)


REPLAYED_CHARACTERS = 4000  # of each sample: more than its lane shows without scrolling


@dataclass(frozen=True)
class Lane:
    """A sample; `rank` by mean log-probability, None if it did not finish. `replay` is what the script moves it by."""

    square: presentation.SampleSquare
    rank: int | None
    answer: RenderedAnswer
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
    def finished(self) -> int:
        """How many samples finished within the budget."""
        return sum(get_finish_time(lane.square.row) is not None for lane in self.lanes)

    @property
    def passed(self) -> int:
        """How many of those pass the test."""
        return sum(
            get_finish_time(lane.square.row) is not None and lane.square.row.verdict == PASSED for lane in self.lanes
        )

    @property
    def first(self) -> Sample | None:
        """The sample that finished first; None if none finished within the budget."""
        ends = [(end, lane.square.row) for lane in self.lanes if (end := get_finish_time(lane.square.row)) is not None]
        return min(ends, key=lambda each: (each[0], each[1].index))[1] if ends else None

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


def load_completion_view(session: Session, run_id: uuid.UUID, *, chosen_first: bool = True) -> CompletionView:
    """A completion and its lanes by rank, the chosen sample first; or all in the order they finished.

    Raises NotFoundError for a run that is not a completion.
    """
    run = require_completion(session, run_id)
    row = repository.load_tasks_with_samples(session, run.id, origins=True)[0]
    squares = presentation.build_squares(row.samples)
    ranks = presentation.rank_samples(squares)
    if chosen_first:
        squares.sort(key=lambda square: (not square.chosen, ranks.get(square.row.index, math.inf)))
    return CompletionView(run, row, [_build_lane(run, row, square, ranks.get(square.row.index)) for square in squares])


def _build_lane(run: Run, row: RunTask, square: presentation.SampleSquare, rank: int | None) -> Lane:
    return Lane(square, rank, build_sample_answer(run, row.task, square.row), _build_replay(row, square.row))


def _build_replay(row: RunTask, sample: Sample) -> dict[str, Any]:
    """`first` and `end` in seconds, between which the page spreads the `n_tokens` evenly.

    `tokens` are [origin, text] pairs within the first REPLAYED_CHARACTERS. A sample from before ends of
    tokens were stored appears whole when it ends.
    """
    end = get_finish_time(sample) or sample.finished_s or row.wall_s or 0.0
    text = escape_plain(sample.raw.removesuffix(FENCE))[:REPLAYED_CHARACTERS]
    return {
        "first": (sample.first_token_s or 0.0) if sample.ends else end,
        "end": end,
        "n_tokens": sample.n_tokens,
        "tokens": [piece for piece in iterate_tokens(text, sample.ends or [], sample.origins) if piece[1]],
    }
