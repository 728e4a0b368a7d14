"""What a search may say: page, REST and command line check it with this."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field

from app.annotations.tags import LONGEST_TAG
from app.core.db.storable import Text
from app.web.http.paging import DIGITS, PageQuery
from evaluation.verdicts import Failure, Status

LONGEST = 1000  # characters of `q`
FILTERS = ("failure", "verdict", "run", "task_id", "target", "dataset", "tag")
LONGEST_ROW = 18  # digits of a row's number


class Position(NamedTuple):
    """Where a page begins: a task's row in the index, and the first of its samples to look at."""

    row: int
    sample: int


class SearchQuery(PageQuery):
    """Words, and filters that each sample must fulfil."""

    q: Text = Field(
        "",
        max_length=LONGEST,
        description='words, expressions such as foo.bar(x[0]) and "quoted phrases": a sample must hold all of them, '
        "in its program, its raw text or its error",
    )
    failure: Failure | None = Field(None, description="only of this class of failures")
    verdict: Status | None = Field(None, description="only with this verdict")
    run: Text | None = Field(
        None, max_length=200, description="only of runs with this id, this beginning of an id, or this text in the name"
    )
    task_id: Text | None = Field(None, max_length=500, description="only of this task, as in HumanEval/12")
    target: Text | None = Field(None, max_length=500, description="only of this model, as runs name it")
    dataset: Text | None = Field(None, max_length=200, description="only over this dataset")
    tag: Text | None = Field(None, max_length=LONGEST_TAG, description="only of runs with this tag")

    @property
    def filters(self) -> dict[str, str]:
        """The filters that are set, by name."""
        return {name: str(value) for name in FILTERS if (value := getattr(self, name))}

    def position(self) -> Position | None:
        """Where this page begins; None for the newest task. Raises BadInputError for a cursor that is not a `next`."""
        numbers = self.numbers(LONGEST_ROW, DIGITS)
        return Position(*numbers) if numbers else None
