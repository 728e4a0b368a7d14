"""A drafter is trained on the prompts that evaluations send, and on none of the tasks that they judge."""

from __future__ import annotations

from types import SimpleNamespace

from app.cli import drafter
from decoding.training.collection import OverlapFilter
from decoding.training.statements import Statement
from evaluation import dataset_files, prompting
from evaluation.datasets import Task

FUNCTION = Statement("function", 'def mean(xs):\n    """Return the mean of a list of numbers."""\n')
INSTRUCTION = Statement("instruction", "Write a Python function `mean`: return the mean. It takes xs.")


class Tokenizer:
    """A chat template that shows what it was given."""

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt=False):
        assert not tokenize
        told = "".join(f"<user>{message['content']}</user>" for message in messages)
        return told + ("<model>" if add_generation_prompt else "")


def build_prompt_builder(*, has_chat_template):
    return drafter.build_prompt_builder(SimpleNamespace(tokenizer=Tokenizer(), has_chat_template=has_chat_template))


def test_a_function_is_asked_in_the_chat_form_of_evaluations():
    prompt_builder = build_prompt_builder(has_chat_template=True)
    rendered = prompt_builder.render(FUNCTION)
    expected = prompting.build_prompt(Task("", FUNCTION.text, "mean", "", ""), "chat")
    assert rendered.prompt == f"<user>{expected.messages[0]['content']}</user><model>{expected.reply_prefix}"
    assert rendered.stop == expected.stop
    assert prompt_builder.render(INSTRUCTION).prompt == f"<user>{INSTRUCTION.text}</user><model>"


def test_a_chat_model_begins_instructions_of_its_own_where_a_users_message_stands():
    prompt_builder = build_prompt_builder(has_chat_template=True)
    assert prompt_builder.opening == f"<user>{prompt_builder.instruction_start}"
    assert prompt_builder.instruction_start


def test_a_base_model_continues_code_and_invents_nothing():
    prompt_builder = build_prompt_builder(has_chat_template=False)
    assert prompt_builder.opening is None
    rendered = prompt_builder.render(FUNCTION)
    assert rendered.prompt == FUNCTION.text
    assert rendered.stop == prompting.build_prompt(Task("", FUNCTION.text, "mean", "", ""), "completion").stop
    assert prompt_builder.render(INSTRUCTION).prompt == f"# {INSTRUCTION.text}\n"


def test_the_tasks_of_all_datasets_are_kept_out_imported_ones_too(ctx, additions):
    known = OverlapFilter(drafter.list_evaluated_texts(ctx))
    assert all(known.shares(task.prompt) for task in dataset_files.load_bundled_dataset("humaneval").tasks)
    planted = "the words of a task that somebody has imported here are never to be learned by heart"
    assert not known.shares(planted)
    from app.core.states import DatasetKind
    from app.datasets import service as datasets
    from evaluation.datasets import Dataset

    task = Task("mine/0", f'def f():\n    """{planted}"""\n', "f", "def check(candidate):\n    pass\n", "    pass\n")
    datasets.store_dataset(ctx, Dataset("mine", (task,), "0" * 64), DatasetKind.IMPORTED)
    assert OverlapFilter(drafter.list_evaluated_texts(ctx)).shares(f"# {planted}")
