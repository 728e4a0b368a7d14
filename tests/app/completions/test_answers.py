"""A completion shows the program of each sample, and the raw text one click away."""

from __future__ import annotations

import re

import pytest

from app.completions import lanes
from app.core.states import RunKind
from app.runs.models import Run

CHAT = "def add(a, b):\n    return a + b\n```\nThis adds two numbers."
PROMPT = 'def add(a, b):\n    """Sum."""\n'


def texts(page: str, label: str) -> list[str]:
    """The texts of the boxes whose label begins so, without markup."""
    boxes = re.findall(rf'<pre [^>]*aria-label="{label} [^>]*>(.*?)</pre>', page, re.DOTALL)
    return [re.sub("<[^>]+>", "", box) for box in boxes]


@pytest.fixture
def add_completion(world):
    """Adds an ungraded completion of a prompt in a mode, with samples of one text; returns the page."""

    def add(raw: str, mode: str = "chat", **changes) -> str:
        run_id = world.add_run("one", limit=1, n=1, kind=RunKind.COMPLETION, raw=raw, graded=False, **changes)
        with world.context.database.session() as session:
            run = session.get(Run, run_id)
            run.prompt_mode_used = mode
            run.prompts[0].prompt, run.prompts[0].entry_point = PROMPT, "add"
        return world.client.get(f"/complete/{run_id}").text

    return add


def test_an_answer_shows_its_program_and_keeps_the_raw_text(add_completion):
    page = add_completion(CHAT)
    assert texts(page, "Program of sample") == ["def add(a, b):\n    return a + b\n"]
    assert "This adds two numbers." in texts(page, "Raw text of sample")[0]
    assert page.index("Program of sample 0") < page.index("Raw text<")


def test_a_continued_prompt_is_not_repeated_in_every_lane(add_completion):
    page = add_completion("    return a + b\n", "completion")
    assert texts(page, "Program of sample") == ["… 2 lines of the prompt\n    return a + b"]


def test_an_answer_without_code_says_so(add_completion):
    page = add_completion("```\n", "completion")
    assert "There is no program in this answer." in page
    assert texts(page, "Raw text of sample") == ["```\n"]


def test_an_unfinished_sample_shows_only_its_text(add_completion):
    page = add_completion("def add(a, b):\n    retu", pace=500)
    assert texts(page, "Text of sample") == ["def add(a, b):\n    retu"]
    assert "Raw text<" not in page


def test_a_prompt_without_a_function_shows_texts(world):
    run_id = world.add_run("one", limit=1, n=1, kind=RunKind.COMPLETION, raw="Roses are red", graded=False)
    with world.context.database.session() as session:
        session.get(Run, run_id).prompts[0].entry_point = ""
    assert texts(world.client.get(f"/complete/{run_id}").text, "Text of sample") == ["Roses are red"]


def test_lanes_stand_in_the_order_of_their_ranks(world):
    run_id = world.add_run("completion", kind=RunKind.COMPLETION, limit=1, n=12, pace=5.0)
    with world.context.database.read() as session:
        ranks = [lane.rank for lane in lanes.load_completion_view(session, run_id).lanes]
    finished = [rank for rank in ranks if rank is not None]
    assert finished == list(range(1, len(finished) + 1))
    assert 1 < len(finished) < len(ranks), "some finish and some do not"
    assert ranks[: len(finished)] == finished
