"""No evaluated task gets into the training data, however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.training.collection import N_WORDS, OverlapFilter
from evaluation import dataset_files

TASK = "def below_zero(operations: list) -> bool:\n    '''You are given a list of deposit and withdrawal operations'''"


@pytest.mark.parametrize(
    "text",
    [
        TASK,
        f"Please solve this.\n\n{TASK}\n\nThanks.",
        TASK.upper(),
        TASK.replace(" ", "\n\t"),
        TASK.replace(",", "").replace(":", " ; "),
        "You are given a list of deposit and withdrawal operations",
    ],
)
def test_a_planted_task_is_found(text: str) -> None:
    assert OverlapFilter([TASK]).shares(text)


def test_nine_words_in_a_row_are_no_overlap_and_ten_are() -> None:
    task = " ".join(f"w{i}" for i in range(30))
    words = task.split()
    known = OverlapFilter([task])
    assert not known.shares(" ".join(words[5 : 5 + N_WORDS - 1]))
    assert known.shares(" ".join(words[5 : 5 + N_WORDS]))
    assert not known.shares(" ".join([*words[5:14], "other", *words[14:22]]))


@given(st.lists(st.sampled_from("abcdefgh"), min_size=N_WORDS, max_size=40), st.data())
def test_any_ten_words_of_a_task_are_found_in_any_text(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - N_WORDS))
    around = st.lists(st.sampled_from("xyz"), max_size=5)
    text = [*data.draw(around), *words[start : start + N_WORDS], *data.draw(around)]
    assert OverlapFilter([" ".join(words)]).shares(" ".join(text))


def test_every_task_of_humaneval_is_kept_out() -> None:
    tasks = dataset_files.load_bundled_dataset("humaneval").tasks
    known = OverlapFilter([task.prompt + task.canonical_solution for task in tasks])
    assert all(known.shares(f"# asked\n{task.prompt}") for task in tasks)
    assert not known.shares(
        "def parse_header(line):\n    '''Split a header into name and value at the first colon.'''\n"
    )
