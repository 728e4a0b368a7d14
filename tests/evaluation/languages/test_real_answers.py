"""Real answers of qwen2.5-coder-0.5b in each language, read by eye: the program that each of them means.

`answers/` has a file for each language: tasks of HumanEval in translation, half asked as a chat and half as a
completion, at temperature 0.2. `program` is what a reader takes from `raw`; PROMPT at its start is the prompt's text.
"""

import json
from pathlib import Path

import pytest

from evaluation.datasets import Task
from evaluation.extraction import extract
from evaluation.languages import registry

ANSWERS = Path(__file__).parent / "answers"


def rows(language):
    return [json.loads(line) for line in (ANSWERS / f"{language}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("language", registry.LANGUAGES)
def test_the_program_is_what_the_model_meant(language):
    read = rows(language)
    assert len(read) >= 40
    assert {row["mode"] for row in read} == {"chat", "completion"}
    wrong = []
    for row in read:
        task = Task(row["task_id"], row["prompt"], row["entry_point"], "", "", language=language)
        program = extract(task, row["raw"], row["mode"]).program
        if program != row["program"].replace("PROMPT", row["prompt"], 1):
            wrong.append((row["task_id"], row["mode"], program))
    assert wrong == []
