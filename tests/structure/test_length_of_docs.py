"""Docs stay short enough to be read: each page, README, and all pages together."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = 900
MOST_WORDS_TOGETHER = 28_000
PAGES = sorted(ROOT.glob("docs/**/*.md"))
REPORTS = ROOT / "docs" / "results"
GENERATED = ROOT / "docs" / "settings.md"  # from the settings class: looked up, not read from end to end


def count_words(page: Path) -> int:
    return len(page.read_text("utf-8").split())


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *(page for page in PAGES if REPORTS not in page.parents or page.name == "README.md")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_has_few_words(page):
    assert count_words(page) <= MOST_WORDS


def test_all_pages_together_have_few_words():
    assert sum(count_words(page) for page in PAGES if page != GENERATED) <= MOST_WORDS_TOGETHER
