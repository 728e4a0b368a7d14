"""Folders without Python source: what they hold instead, in one sentence with the remedy."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

_LANGUAGES = {
    ".ipynb": "notebooks", ".js": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript", ".jsx": "JavaScript",
    ".ts": "TypeScript", ".tsx": "TypeScript", ".mts": "TypeScript", ".go": "Go", ".java": "Java", ".rs": "Rust",
    ".cpp": "C++", ".cc": "C++", ".cxx": "C++",
}  # fmt: skip
_FOREIGN = frozenset(("node_modules", "vendor", "dist", "build", "target"))


def explain_missing_python(folder: Path) -> str:
    """What to do with a folder that holds no Python source."""
    counts = _count_files(folder)
    if not counts:
        return f"{folder} holds no Python source outside its tests: give the folder of a Python project"
    language = max(counts, key=lambda name: (counts[name], name))
    if language == "notebooks":
        remedy = "put its functions into modules (.py) with tests, or write tasks as a case file"
    else:
        remedy = "write tasks with arguments and results as a case file"
    return (
        f"{folder} holds {language} and no Python source, and own code in {language} is not supported yet: {remedy} "
        "(docs/languages.md)"
    )


def _count_files(folder: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _current, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _FOREIGN]
        counts.update(_LANGUAGES[suffix] for file in files if (suffix := Path(file).suffix.lower()) in _LANGUAGES)
    return counts
