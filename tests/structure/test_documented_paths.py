"""What docs and comments name exists: files and folders of this repository, linked pages and their headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("app", "benchmarks", "decoding", "deploy", "evaluation", "kernels", "migrations")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
SOURCES = [
    file
    for folder in (*CODE, "docs")
    for file in sorted((ROOT / folder).rglob("*"))
    if file.suffix in (".py", ".html", ".js", ".css", ".yml") and "vendor" not in file.parts
]
FOLDERS = "|".join((*CODE, "docs", "tests"))
PATH = re.compile(rf"(?<![\w/.~-])(?:{FOLDERS})/(?:[\w./*-]*\w)?(?![\w(])")
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def exists(path: str) -> bool:
    """Whether a file, a folder, or a module without its ending is there; `*` stands for any name."""
    return any(next(ROOT.glob(each), None) for each in (path, f"{path}.py"))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the page's headings."""
    titles = (re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", title) for title in HEADING.findall(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_path_exists():
    named = {(path, str(file.relative_to(ROOT))) for file in PAGES + SOURCES for path in PATH.findall(file.read_text())}
    assert not {(path, file) for path, file in named if not exists(path.rstrip("/"))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page):
    for target, anchor in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        found = page.parent / target if target else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), f"{target}#{anchor}"
