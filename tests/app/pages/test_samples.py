"""Equal samples of a task stand once, the prompt is folded wherever it stands, a completion shows what passed."""

from __future__ import annotations

import html
import re

import pytest
from sqlalchemy import select

from app.core.states import RunKind
from app.samples.models import Sample
from app.web.ui.display import strip_prompt

PROMPT = 'from typing import List\n\n\ndef f(xs: List[int]) -> int:\n    """Adds."""\n'
BODY = "    return sum(xs)\n"
LANE = r'<li class="lane ([^"]*)"[^>]*>\s*<span class="who"><span>([^<]*)</span><span class="place">([^<]*)'


def text_of(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (PROMPT + BODY, "… 3 lines of the prompt\n    return sum(xs)"),
        ("import math\n\n" + PROMPT + BODY, "import math\n\n… 3 lines of the prompt\n    return sum(xs)"),
        (PROMPT.replace("\n\n\n", "\n\n") + "\n" + BODY, "… 3 lines of the prompt\n    return sum(xs)"),
        (
            PROMPT.replace("List\n\n", "List\nimport math\n\n") + BODY,
            "from typing import List\nimport math\n\n\n… 2 lines of the prompt\n    return sum(xs)",
        ),
        ("def f(xs):\n" + BODY, "def f(xs):\n    return sum(xs)"),
    ],
)
def test_the_prompt_is_folded_and_neither_an_import_nor_the_body_is(program, shown):
    assert text_of(strip_prompt(program, PROMPT)).rstrip("\n") == shown


def test_equal_samples_stand_once_with_the_figures_of_each(world):
    run = world.add_run("same", n=4, limit=1, skill=0.0, raw="    return 1\n")
    with world.context.database.session() as session:
        for sample in session.scalars(select(Sample)):
            wrong = sample.index == 3
            sample.verdict, sample.verdict_detail = ("wrong_answer", "no") if wrong else ("passed", None)
            sample.got = sample.traceback = sample.failing_assert = sample.expected = None
            sample.finish_reason = "stop"
    page = world.client.get(f"/runs/{run}/tasks/HumanEval/0").get_data(as_text=True)
    assert page.count("<article") == 2
    assert "3 identical" in page
    assert "4 samples, 2 different texts" in page
    assert re.search(r"Samples\s+\d, \d, \d", page)
    assert all(f'id="sample-{index}"' in page for index in range(4))


def test_a_race_counts_who_passed_and_tells_numbers_from_ranks(world):
    run = world.add_run("completion", n=3, limit=1, kind=RunKind.COMPLETION, pace=0.5)
    with world.context.database.session() as session:
        for sample in session.scalars(select(Sample)):
            sample.verdict = "passed" if sample.index == 2 else "wrong_answer"
            sample.mean_logprob = -0.1 * (1 + sample.index)
    page = world.client.get(f"/complete/{run}").get_data(as_text=True)
    assert "<strong>3</strong> of 3 finished within 10 s, <strong>1</strong> of 3 passed" in " ".join(page.split())
    lanes = re.findall(LANE, page)
    ranks = {who: rank for _, who, rank in lanes}
    assert ranks == {"Sample 0": "ranked 1st", "Sample 1": "ranked 2nd", "Sample 2": "ranked 3rd"}
    judged = {who: css for css, who, _ in lanes}
    assert "judged pass" in judged["Sample 2"]
    assert "judged wrong" in judged["Sample 0"]
