"""Every judged sample that did not pass has one failure class."""

from __future__ import annotations

import pytest

from evaluation import verdicts
from evaluation.verdicts import FAILURES, Status


def test_every_status_has_a_failure_class_and_every_sample_one() -> None:
    assert {verdicts.classify_failure(status, "", True) for status in Status} | {"not_finished", "name_or_import"} == {
        None,
        *FAILURES,
    }
    with pytest.raises(ValueError, match="choose one of passed, wrong_answer"):
        verdicts.classify_failure("great", "", True)


@pytest.mark.parametrize(
    ("status", "detail", "finished", "failure"),
    [
        (Status.PASSED, "", False, None),
        (Status.EXCEPTION, "NameError: name 'x' is not defined", True, "name_or_import"),
        (Status.EXCEPTION, "ValueError: x", True, "exception"),
        (Status.SYNTAX_ERROR, "", False, "not_finished"),
        (Status.SANDBOX_ERROR, "", False, "sandbox"),
    ],
)
def test_an_unfinished_sample_and_an_unknown_name_have_classes_of_their_own(
    status: Status, detail: str, finished: bool, failure: str | None
) -> None:
    assert verdicts.classify_failure(status, detail, finished) == failure
