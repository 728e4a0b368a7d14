"""Every figure of the leaderboard, declared once.

Programs read a `BoardRow`, in REST and `--json`. COLUMNS are for people: on the page (explained on About) and on
the command line.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from app.core.states import RunState
from app.leaderboard.service import LeaderboardRow
from app.web.http.schemas import ResponseModel
from app.web.ui.units import format_interval, format_milliseconds, format_percent, format_seconds

RowValue = Callable[[LeaderboardRow], Any]


class BoardRow(ResponseModel):
    """A run on the leaderboard."""

    name: str
    run: uuid.UUID = Field(description="the id of the run")
    label: str | None = Field(description="why the run is not ranked; null for one that is")
    rank: int | None = Field(
        description="among all ranked runs over the same tasks on the same device, also those that a filter leaves out"
    )
    state: RunState
    dataset: str
    device: str
    toolchain: str = Field(description="of the language that its tasks are in; empty: Python")
    target: str
    weights: str
    drafter: str
    draft_length: str
    budget_s: float = Field(description="the budget the shares were read at")
    capped: bool = Field(description="the run stopped at that budget, so its shares are lower bounds")
    in_guest_tasks: int | None = Field(description="tasks with verdicts a program could have forged")
    in_guest_samples: int | None = Field(description="samples with such a verdict; null: not counted")
    in_guest_passed: int | None = Field(description="of those, passed")
    clock: str | None = Field(
        description="why the times of the run are not to be trusted; empty: nothing disturbed them; null: not known"
    )
    archived: bool
    pass_first: float
    pass_first_interval: tuple[float, float]
    pass_all: float
    pass_all_interval: tuple[float, float]
    ranking_loss: float = Field(description="Pass@All minus Pass@First")
    first_finished_p50_s: float | None
    first_finished_p95_s: float | None
    ms_per_token: float | None = Field(description="of finished samples")
    tokens_per_s: float | None = Field(description="of all samples of a task together")
    mean_acceptance_length: float | None
    seconds_per_right: float | None = Field(
        description="of decoding, per task that Pass@First counts at the run's own budget"
    )
    peak_memory_bytes: int | None = Field(description="highest over all tasks")
    n: int = Field(description="samples per task")
    n_tasks: int = Field(description="tasks graded")
    dataset_tasks: int
    temperature: float
    top_p: float
    prompt_mode: str
    created_at: dt.datetime
    fingerprint: str


class BoardPage(ResponseModel):
    """The leaderboard, best first."""

    rows: list[BoardRow]
    next: str | None


def make_board_row(row: LeaderboardRow) -> BoardRow:
    """A row of the leaderboard for programs: values of the row, else of its run, else of the run's figures."""
    figures = row.run.figures
    own = {
        "run": row.run.id,
        "label": row.run.unranked_reason,
        "clock": None if figures.clock_marks is None else " ".join(figures.clock_marks),
        "ms_per_token": figures.ms_per_token_all,
    }
    sources = (row, row.run, figures)
    for name in BoardRow.model_fields.keys() - own.keys():
        own[name] = getattr(next(source for source in sources if hasattr(source, name)), name)
    return BoardRow(**own)


@dataclass(frozen=True, slots=True)
class Column:
    """A column for people."""

    key: str  # stands in addresses (`?sort=`)
    label: str
    value: RowValue  # what it shows and orders the rows by; rows where it is None come last
    format_value: Callable[..., str]  # the value as text
    about: str  # on the page About, like `formula`
    note: Callable[[LeaderboardRow], str] = lambda _: ""  # in small type below the text
    # (share, low, high), drawn as a bar, too
    share: Callable[[LeaderboardRow], tuple[float, float, float]] | None = None
    descending: bool = True
    of_tasks: bool = False  # a share of the run's tasks: their number decides its decimals
    tie: RowValue = lambda _: 0  # orders rows whose values are equal
    formula: str = ""
    numeric: bool = True
    printed: bool = False  # in the table of the command line, which has room for few

    def text(self, row: LeaderboardRow) -> str:
        """The value for people."""
        return self.format_value(self.value(row), *([row.run.n_tasks] if self.of_tasks else ()))


COLUMNS = (
    Column(
        "first",
        "Pass@First",
        lambda row: row.pass_first,
        format_percent,
        of_tasks=True,
        note=lambda row: format_interval(row.pass_first_interval, row.run.n_tasks),
        share=lambda row: (row.pass_first, *row.pass_first_interval),
        tie=lambda row: row.pass_all,
        printed=True,
        about="The share of tasks whose chosen sample passes. The chosen sample is the one with the highest mean "
        "log-probability per token under the target model, among those finished within B. A task without a finished "
        "sample counts as not passed. This is the quality for a user who sees one answer.",
        formula="chosen_t(B) = argmax { mean_logprob(s) : finished(s) ≤ B }\n"
        "Pass@First(B) = #{ t : chosen_t(B) passes } / #tasks",
    ),
    Column(
        "all",
        "Pass@All",
        lambda row: row.pass_all,
        format_percent,
        of_tasks=True,
        note=lambda row: format_interval(row.pass_all_interval, row.run.n_tasks),
        share=lambda row: (row.pass_all, *row.pass_all_interval),
        tie=lambda row: row.pass_first,
        printed=True,
        about="The share of tasks with at least one passing sample finished within B. A perfect choice among the "
        "samples would reach it.",
        formula="Pass@All(B) = #{ t : some s passes, finished(s) ≤ B } / #tasks",
    ),
    Column(
        "finish",
        "First finished",
        lambda row: row.run.figures.first_finished_p50_s,
        format_seconds,
        note=lambda row: f"p95 {format_seconds(row.run.figures.first_finished_p95_s)}",
        descending=False,
        about="Seconds until the first sample of a task was finished; median (p50) and 95th percentile (p95) over the "
        "tasks that had one.",
    ),
    Column(
        "speed",
        "ms/token",
        lambda row: row.run.figures.ms_per_token_all,
        format_milliseconds,
        descending=False,
        printed=True,
        about="Time per token: milliseconds from the start of the task to the end of a sample, divided by its tokens, "
        "as in the BASS paper. The leaderboard shows the mean over the finished samples, averaged over tasks; the "
        "page of a run also shows the first sample to finish and the last.",
        formula="ms/token(s) = 1000 · finished(s) / tokens(s)",
    ),
    Column(
        "samples",
        "Samples",
        lambda row: row.run.n,
        str,
        printed=True,
        about="Samples decoded for each task, side by side.",
    ),
    Column(
        "tasks",
        "Tasks",
        lambda row: row.run.n_tasks,
        str,
        note=lambda row: f"of {row.run.dataset_tasks}",
        printed=True,
        about="Tasks graded, of those in the dataset. Shares count graded tasks only.",
    ),
    Column(
        "date",
        "Date",
        lambda row: row.run.created_at,
        lambda created_at: f"{created_at:%Y-%m-%d}",
        numeric=False,
        about="The day on which the run was made.",
    ),
)
