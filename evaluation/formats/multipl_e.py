"""MultiPL-E (Cassano et al., arXiv 2208.08227): name, language, prompt, tests, stop_tokens and facts about the prompt.

Its tests begin with the braces that its stop tokens cut off. Extraction writes these braces, so they are taken away.
"""

from __future__ import annotations

import re

from evaluation.datasets import Task
from evaluation.formats import exit_code_tasks
from evaluation.formats.base import Record, RecordError, get_stops, get_text

LANGUAGES = {
    "js": "javascript", "ts": "typescript", "go": "go", "go_test.go": "go", "java": "java", "cpp": "cpp", "rs": "rust"
}  # fmt: skip
"""Its names of languages, which are endings of files."""
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
_KEPT = ("doctests", "prompt_terminology")


def to_task(record: Record) -> Task:
    """The task in a record; `canonical_solution`, which MultiPL-E does not have, may be added. Raises RecordError."""
    name = get_text(record, "language")
    if name not in LANGUAGES:
        raise RecordError(
            f"field language: {name[:60]!r} is not a language that can be judged: use {', '.join(LANGUAGES)}"
        )
    language, prompt = LANGUAGES[name], get_text(record, "prompt")
    return Task(
        task_id=get_text(record, "name"),
        prompt=prompt,
        entry_point=exit_code_tasks.find_function_name(prompt, language),
        test=_adapt_test(get_text(record, "tests"), prompt, language),
        canonical_solution=get_text(record, "canonical_solution", default=""),
        stop=get_stops(record, "stop_tokens"),
        source=exit_code_tasks.build_source(
            {"format": "MultiPL-E", **{key: record[key] for key in _KEPT if key in record}}
        ),
        language=language,
    )


def _adapt_test(tests: str, prompt: str, language: str) -> str:
    """The tests after a whole function; in Java after its class, which the class of the tests extends."""
    stripped = tests.lstrip()
    if not stripped.startswith("}"):
        return tests
    after = stripped[1:].lstrip("\n")
    if language != "java":
        return after
    if (own := _CLASS.search(prompt)) is None:
        raise RecordError("field prompt: has no class")
    return f"class {own[1]}Test extends {own[1]} {{\n{after}"


def matches(record: Record) -> bool:
    """Whether a record is of this format."""
    return "cases" not in record and ("tests" in record or "stop_tokens" in record)
