"""What a sample answers: the program that extraction finds in its text, and the text itself, both tinted by origin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.core.db.storable import as_written
from app.datasets.models import Task
from app.datasets.service import as_plain
from app.runs.figures import in_budget_s
from app.runs.models import Run
from app.samples.models import Sample
from app.samples.origins import Piece, of_program, pieces
from app.web.ui.display import highlighted
from app.web.ui.units import counted
from evaluation.extractor import Extractor

FENCE = "\n```"  # ends an answer to a chat prompt; no part of the code
extractor = Extractor()


@dataclass(frozen=True)
class Answer:
    """An answer as HTML. `program` is "" where the text holds none, and None where nothing says what to look for."""

    program: Markup | None
    text: Markup


def of_sample(run: Run, task: Task, sample: Sample) -> Answer:
    """The answer of a stored sample: the program that was judged, or would be; of an unfinished one only the text."""
    text = pieces(sample.raw, sample.ends or [], sample.origins)
    if in_budget_s(sample) is None:
        return Answer(None, _tinted(text, task.language))
    return of_text(run, task, text, sample.program)


def of_text(run: Run, task: Task, text: Sequence[Piece], program: str | None = None) -> Answer:
    """The answer in a text, given in pieces by origin; `program` is what was extracted from it, if anything was.

    Nothing is looked for in an answer to a prompt that defines no function.
    """
    raw = "".join(part for _, part in text)
    if program is None and task.entry_point:
        mode = run.prompt_mode_used or "completion"
        program = extractor.extract(as_plain(task), as_written(raw), mode).program  # type: ignore[arg-type]
    shown = None if program is None else _without_prompt(program, task, text)
    return Answer(shown, _tinted(text, task.language))


def _tinted(text: Sequence[Piece], language: str) -> Markup:
    return highlighted("".join(part for _, part in text).removesuffix(FENCE), text, language)


def _without_prompt(program: str, task: Task, text: Sequence[Piece]) -> Markup:
    """The program; only what follows the prompt where the text continues that, since it stands on the page already."""
    prompt = task.prompt
    if not program.startswith(prompt) or prompt.strip() in "".join(part for _, part in text):
        return highlighted(program, of_program(program, text), task.language)
    rest = program[len(prompt) :]
    note = Markup('<span class="given">… {} of the prompt</span>\n').format(counted(len(prompt.splitlines()), "line"))
    return note + highlighted(rest, of_program(rest, text), task.language)
