"""Prompts keep their bytes, and stops end an answer only where the function has ended."""

from __future__ import annotations

from typing import get_args

import pytest

from decoding.models.infilling import FORMATS
from evaluation import dataset_files
from evaluation.datasets import Task
from evaluation.prompting import BLOCK_STOP, MODES, PROGRAM_STOP, VERSIONS, Mode, PromptError, build_prompt

TASKS = dataset_files.load_bundled_dataset("humaneval").tasks
QWEN, *_ = FORMATS
GAP = Task("I/0", "def f():\n", "f", "", "", suffix="    return 1\n", stop=("\n",))


def test_completion_sends_the_prompts_bytes() -> None:
    for task in TASKS:
        prompt = build_prompt(task, "completion")
        assert (prompt.text, prompt.messages, prompt.reply_prefix) == (task.prompt, None, "")
        assert prompt.version == VERSIONS["completion"]


def test_raw_sends_the_prompts_bytes_and_stops_only_where_the_task_says() -> None:
    prompt = build_prompt(Task("t", "  def f():\n", "f", "", "", stop=("\n\n",)), "raw")
    assert (prompt.text, prompt.stop) == ("  def f():\n", ("\n\n",))


def test_raw_sends_a_clients_messages_and_token_ids_as_they_are() -> None:
    said = ({"role": "system", "content": "a"}, {"role": "user", "content": "b"})
    prompt = build_prompt(Task("t", "to read", "", "", "", stop=("x",), messages=said), "raw")
    assert (prompt.text, prompt.messages, prompt.reply_prefix, prompt.stop) == (None, list(said), "", ("x",))
    prompt = build_prompt(Task("t", "", "", "", "", prompt_token_ids=(5, 6)), "raw")
    assert (prompt.text, prompt.messages, prompt.token_ids) == (None, None, (5, 6))


def test_no_stop_cuts_a_reference_solution() -> None:
    for task in TASKS:
        assert not [s for s in build_prompt(task, "completion").stop if s in task.canonical_solution]
        assert not [s for s in build_prompt(task, "chat").stop if s in task.prompt + task.canonical_solution]


@pytest.mark.parametrize("line", ["def g():", "print(1)", "class A:", "@cache", "```", "# note", '"""', "The code"])
def test_an_unindented_line_stops_a_body(line: str) -> None:
    stops = any(s in f"    return 1\n\n{line}" for s in BLOCK_STOP)
    assert stops != line.startswith("#")


@pytest.mark.parametrize(
    "text", ["    x = [\n        1,\n]\n", "    a = 1\n# why\n    return a\n", "    a\n\n\n    b\n"]
)
def test_brackets_comments_and_blank_lines_at_column_0_do_not_stop(text: str) -> None:
    assert not any(s in text for s in BLOCK_STOP)


def test_a_prompt_without_open_function_may_be_answered_with_helpers_and_imports() -> None:
    task = Task("MBPP/1", '"""Add."""\n', "add", "", "", stop=("\n#end",))
    stop = build_prompt(task, "completion").stop
    assert stop == (*PROGRAM_STOP, "\n#end")
    assert not any(s in "import math\n\ndef helper():\n    pass\n\ndef add():\n    pass\n" for s in stop)


def test_chat_opens_a_fence_in_the_reply_and_stops_at_its_end() -> None:
    prompt = build_prompt(TASKS[0], "chat")
    assert prompt.text is None
    assert prompt.reply_prefix == "```python\n"
    assert prompt.stop == ("\n```",)
    assert prompt.messages is not None
    [message] = prompt.messages
    assert message["role"] == "user"
    assert f"```python\n{TASKS[0].prompt.rstrip()}\n```" in message["content"]


def test_a_fence_in_the_prompt_gets_a_longer_one_around_it() -> None:
    task = Task("T/0", 'def f():\n    """\n    ```\n    f()\n    ```\n    """\n', "f", "", "")
    messages = build_prompt(task, "chat").messages
    assert messages is not None
    assert messages[0]["content"].count("````") == 2


def test_infilling_has_the_models_format_and_stops_at_its_tokens_and_at_the_tasks_stops() -> None:
    prompt = build_prompt(GAP, "infill", QWEN)
    assert prompt.text == "<|fim_prefix|>def f():\n<|fim_suffix|>    return 1\n<|fim_middle|>"
    assert prompt.stop == (*QWEN.markers, "\n")
    for each in FORMATS:
        text = build_prompt(GAP, "infill", each).text
        assert text is not None
        suffix_comes_first = each.template.index("{suffix}") < each.template.index("{prefix}")
        assert (text.index(GAP.suffix or "") < text.index(GAP.prompt)) == suffix_comes_first


@pytest.mark.parametrize(
    ("task", "mode", "message"),
    [
        (TASKS[0], "infill", "has no suffix: use mode completion or chat"),
        (GAP, "completion", "use mode infill"),
        (GAP, "chat", "use mode infill"),
        (GAP, "infill", "no fill-in-the-middle tokens"),
        (TASKS[0], "plain", "choose one of completion, chat, infill, raw"),
    ],
)
def test_a_mode_that_does_not_fit_is_refused(task: Task, mode: Mode, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        build_prompt(task, mode)


def test_every_mode_has_a_version() -> None:
    assert set(VERSIONS) == set(MODES) == set(get_args(Mode))
