"""Words that newcomers do not know are explained where they first stand."""

from __future__ import annotations

import pytest

from app.web.ui.display import TERMS


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/leaderboard", ["sibling"]),
        ("/runs/new", ["registry key", "drafter", "goodput", "coupled"]),
        ("/complete", ["registry key", "drafter", "goodput", "coupled"]),
        ("/studies", ["arm"]),
        ("/studies/new", ["arm", "drafter", "budget of interest"]),
    ],
)
def test_a_page_explains_a_word_once(world, path, words):
    world.add_run("one", drafter="sibling")
    world.add_run("two", drafter="sibling")
    page = world.client.get(path).text
    for word in words:
        assert page.count(f'popovertarget="term-{word.replace(" ", "-")}"') == 1, word
        assert TERMS[word].split("'")[0] in page


def test_every_word_is_explained_in_one_sentence():
    assert all(text.endswith(".") and text.count(". ") == 0 for text in TERMS.values())
