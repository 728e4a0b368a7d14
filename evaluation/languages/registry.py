"""The languages. To add one, write its folder and add its line to LANGUAGES."""

from __future__ import annotations

import functools
import importlib

from evaluation.datasets import PYTHON
from evaluation.languages.base import Language

LANGUAGES = {
    "javascript": "JavaScript",
    "typescript": "TypeScript",
    "go": "Go",
    "java": "Java",
    "cpp": "C++",
    "rust": "Rust",
}
"""Name (the folder, and the value of a task's field `language`) and label. Python is judged by tests, not by cases."""
LABELS = {PYTHON: "Python", **LANGUAGES}


class UnknownLanguageError(ValueError):
    """A name that is not in LANGUAGES."""


@functools.cache
def load_language(name: str) -> Language:
    """The language of that name. Raises UnknownLanguageError."""
    if name not in LANGUAGES:
        raise UnknownLanguageError(f"{name[:60]!r} is not a language that can be judged: use {', '.join(LANGUAGES)}")
    own = importlib.import_module(f"evaluation.languages.{name}.language")
    toolchain = importlib.import_module(f"evaluation.languages.{name}.toolchain")
    found: Language = own.LANGUAGE(name, LANGUAGES[name], toolchain)
    return found
