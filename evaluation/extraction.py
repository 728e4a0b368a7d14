"""Extraction: from a model's raw answer to the complete program that is judged.

Two questions are separate. Where is the code: the whole text, or a block between fences, closed or cut off by the
deadline? And which part of the program is it: the function restated, which gets the prompt's imports and helpers where
they are missing, or the body alone, which continues the prompt? READINGS are tried in order. The first program that
compiles and whose function is more than a placeholder wins. If there is none, the literal reading is returned, which
mostly does not compile: the sandbox says so.

Nothing is executed. Inside a function only indentation, unusual spaces and interpreter prompts are repaired.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from textwrap import dedent, indent
from typing import Literal

from evaluation.datasets import PYTHON, Task
from evaluation.effects import ProgramEffects, find_names_read, is_builtin
from evaluation.normalization import (
    convert_line_ends,
    extract_answer_text,
    replace_unusual_spaces,
    strip_interpreter_prompts,
)
from evaluation.prompting import Mode
from evaluation.source import (
    ParseLimitError,
    find_definition,
    is_definition_of,
    limit_characters,
    list_bound_names,
    list_defined_names,
    parse,
    parse_open,
)
from evaluation.trimming import get_line_range, has_real_body, keep_needed_statements, split_top_level, trim

CodeLocation = Literal["completion", "fenced", "open_fence", "function", "empty"]
Reading = Literal["continuation", "blocks", "function", "body", "literal"]
VERSION = "extraction-6"
"""Of answers in Python."""
TREE_VERSION = "extraction-tree-3"
"""Of answers in other languages."""
MAX_FENCES = 6
"""Fence lines that are combined in every way; more than these are nested examples, not answers."""
MAX_CHARS = 50_000
"""Longest text for which other readings than the literal one are tried: repairs take more than linear time."""

FENCE = re.compile(r" {0,3}(?:```+|~~~+)[^`]*")
_BARE_FENCE = re.compile(r"\s*(?:```+|~~~+)\w*\s*")
NOT_READ = " (not read in time)"
"""Ends the version of an answer whose reading was given up."""
MAX_BLOCK_FENCES = 60
"""Fence lines that are searched for blocks that parse as Python."""
MAX_NESTED = 4
"""Fence lines after its opening one at which such a block may end."""
MAX_READ = 600_000
"""Characters that all readings of one answer together may parse."""
MAX_BODIES = 6
"""Blocks that are tried as a body alone, the most expensive reading, and ends of a body without indentation."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """A complete program, "" where there is no code.

    `location` says where the code was. `completion`: the text continues the prompt. `function`: it restates the
    function. `fenced`: it was between fences. `open_fence`: a fence was opened, in the prompt or the text, and not
    closed. `empty`: there was no code.
    """

    program: str
    location: CodeLocation
    version: str = VERSION
    reading: Reading = "literal"  # the way of reading that won


def has_no_code(text: str) -> bool:
    """Whether a text is blank but for fences."""
    return all(_BARE_FENCE.fullmatch(line) for line in text.split("\n") if line.strip())


def iterate_blocks(text: str, opened: bool) -> Iterator[tuple[CodeLocation | None, str]]:
    """Parts of the text that may be code, each with the fences around it (None: no fences).

    A fence line may open a block, close one, or lie inside one (in a docstring). A wrong guess does not compile, so
    every combination is offered, nearest fences first. `opened`: the prompt opened a fence.
    """
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if FENCE.fullmatch(line)][:MAX_FENCES]
    for start in [-1, *fences] if opened else fences:
        for end in [f for f in fences if f > start]:
            yield "fenced", "\n".join(lines[start + 1 : end]) + "\n"
        yield "open_fence", "\n".join(lines[start + 1 :])
    if not opened:
        yield None, text


@dataclass(frozen=True, slots=True)
class _Answer:
    """A raw answer to a task. `opened`: the prompt opened a fence."""

    task: Task
    text: str
    opened: bool

    def list_blocks(self) -> list[tuple[CodeLocation | None, str]]:
        """The parts of the text that may be code, without the blank ones."""
        return [(location, code) for location, code in iterate_blocks(self.text, self.opened) if code.strip()]


def extract(task: Task, raw: str, mode: Mode) -> Extraction:
    """The program in a raw answer; in chat mode `raw` starts inside the fence that the prompt opened.

    Never raises: any text gives a program, which may not compile. In infill mode the program is `build_program` of
    the text. Python's parser may run long on hostile text and holds the interpreter's lock meanwhile: services
    use `evaluation.extractor`.
    """
    if task.language != PYTHON:
        from evaluation.languages.extraction import extract_by_grammar  # noqa: PLC0415  (loads tree-sitter)

        return extract_by_grammar(task, raw, mode)
    text = extract_answer_text(convert_line_ends(raw))
    prefix = None if task.program_prefix is None else convert_line_ends(task.program_prefix)
    task = replace(task, prompt=convert_line_ends(task.prompt), program_prefix=prefix)
    if has_no_code(text):
        return Extraction("", "empty")
    if task.suffix is not None:
        return Extraction(task.build_program(text), "completion")
    opened = mode == "chat"
    if len(text) <= MAX_CHARS:
        with contextlib.suppress(ParseLimitError), limit_characters(MAX_READ):
            for reading, location, program in _iterate_candidates(task, text, opened):
                for name in dict.fromkeys((task.entry_point, _get_last_name(task))):
                    if (cut := trim(program, name)) is not None and _is_answer(cut, name):
                        return Extraction(cut, location, reading=reading)
    return _read_literally(_Answer(task, text, opened))


def _iterate_candidates(task: Task, text: str, opened: bool) -> Iterator[tuple[Reading, CodeLocation, str]]:
    """The programs that an answer may mean, the most likely first: each reading of the text as it is and repaired."""
    for variant in dict.fromkeys((text, replace_unusual_spaces(text), strip_interpreter_prompts(text))):
        answer = _Answer(task, variant, opened)
        for reading, read_programs in READINGS if variant.strip() else ():
            for location, program in read_programs(answer):
                yield reading, location, program


def build_unread_extraction(task: Task, raw: str, mode: Mode) -> Extraction:
    """The answer appended to the prompt unread: for a text that extraction could not read in time."""
    text, version = extract_answer_text(convert_line_ends(raw)), VERSION if task.language == PYTHON else TREE_VERSION
    return Extraction(task.build_program(text), "open_fence" if mode == "chat" else "completion", version + NOT_READ)


def _read_continuation(answer: _Answer) -> Iterator[tuple[CodeLocation, str]]:
    """The whole text as the body of the prompt's function."""
    if not answer.opened and _starts_with_body(answer.text, _get_last_name(answer.task)):
        yield "completion", answer.task.prompt + answer.text


def _read_function(answer: _Answer) -> Iterator[tuple[CodeLocation, str]]:
    """One block that defines the function."""
    for location, code in answer.list_blocks():
        if (program := _build_restated_program(answer.task, code)) is not None:
            yield location or "function", program


def _read_body(answer: _Answer) -> Iterator[tuple[CodeLocation, str]]:
    """One block that is the function's body alone."""
    for location, code in answer.list_blocks()[:MAX_BODIES]:
        for program in _build_continued_programs(answer.task, code):
            yield location or "completion", program


def _read_literally(answer: _Answer) -> Extraction:
    """The reading without repairs, for an answer of which no other reading is a program."""
    task, blocks = answer.task, answer.list_blocks()
    definition = re.compile(rf"^[ \t\f]*(?:async[ \t]+)?def[ \t]+{re.escape(_get_last_name(task))}\b", re.MULTILINE)
    for location, code in blocks:
        if definition.search(code):
            return Extraction(_add_preamble(task, code), location or "function")
    location, code = blocks[0] if answer.opened and blocks else (None, answer.text)
    return Extraction(task.prompt + code, location or "completion")


def _join_blocks(answer: _Answer) -> Iterator[tuple[CodeLocation, str]]:
    """The fenced blocks that parse as Python, joined, if one of them defines the function.

    The last block that defines it wins: a model that writes the function again corrects itself. Helpers and imports
    that the block lacks come from the other blocks.
    """
    task, blocks = answer.task, list(_iterate_python_blocks(answer.text, answer.opened))
    having = [
        i for i, (_, code) in enumerate(blocks) if _get_last_name(task) in code and _is_answer(code, task.entry_point)
    ]
    if not having:
        return
    location, code = blocks[having[-1]]
    lacking = _find_lacking_names(task, code)
    parts = [
        code if i == having[-1] else keep_needed_statements(other, lacking, task.entry_point)
        for i, (_, other) in enumerate(blocks)
    ]
    yield location, _add_preamble(task, "\n".join(filter(None, parts)))


READINGS: tuple[tuple[Reading, Callable[[_Answer], Iterator[tuple[CodeLocation, str]]]], ...] = (
    ("continuation", _read_continuation),
    ("blocks", _join_blocks),
    ("function", _read_function),
    ("body", _read_body),
)
"""The ways to read an answer as a program, the most likely first. Each yields programs and where their code was."""


def _iterate_python_blocks(text: str, opened: bool) -> Iterator[tuple[CodeLocation, str]]:
    """Fenced blocks that parse as Python, in order and without overlap.

    A fence line may lie inside a string of the block, so a block ends at the nearest fence where it parses.
    """
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if FENCE.fullmatch(line)][:MAX_BLOCK_FENCES]
    opening = -1 if opened else 0  # an index of `fences`; the prompt's fence comes before the first
    while opening < len(fences):
        first_line = fences[opening] + 1 if opening >= 0 else 0
        end_of_block = opening + 1
        for closing in range(opening + 1, min(opening + MAX_NESTED, len(fences)) + 1):
            is_closed = closing < len(fences)
            code = "\n".join(lines[first_line : fences[closing] if is_closed else len(lines)])
            if code.strip() and parse(code + "\n" if is_closed else code) is not None:
                yield ("fenced", code + "\n") if is_closed else ("open_fence", code)
                end_of_block = closing
                break
        opening = end_of_block + 1


def _find_lacking_names(task: Task, code: str) -> set[str]:
    """Names that the code reads and that neither it, the prompt nor Python defines."""
    prompt, tree = parse_open(task.prompt), parse(code)
    known = (list_defined_names(prompt) if prompt is not None else set()) | (
        list_defined_names(tree) if tree is not None else set()
    )
    read = {name for node in tree.body for name in find_names_read(node)} if tree is not None else set()
    return {name for name in read - known if not is_builtin(name)}


def _build_restated_program(task: Task, code: str) -> str | None:
    """The program, if the code defines the entry point; else None."""
    if _get_last_name(task) not in code:
        return None
    for variant in dict.fromkeys((code, dedent(code))):
        for name in dict.fromkeys((task.entry_point, _get_last_name(task))):
            if (own := trim(variant, name)) is not None:
                return _add_preamble(task, own)
    return None


def _get_last_name(task: Task) -> str:
    """The entry point's own name, without its classes: an answer may restate a method alone."""
    return task.entry_point.rpartition(".")[2]


def _build_continued_programs(task: Task, code: str) -> Iterator[str]:
    """Programs that read the code as the body of the prompt's function: unchanged, then with its indentation repaired.

    Repaired are a width other than the prompt's (two spaces, tabs), a first line without indentation (the model
    continued right after the prompt's), and a body without any.
    """
    yield task.prompt + code
    prompt = task.prompt if task.prompt.endswith("\n") else task.prompt + "\n"
    margin = _find_body_margin(task)
    for variant in dict.fromkeys((code, code.expandtabs(4))):
        lines = variant.strip("\n").split("\n")
        if not lines[0][:1].isspace():
            parts = split_top_level("\n".join(lines))
            for end in range(len(parts), max(0, len(parts) - MAX_BODIES), -1):
                whole = indent("\n".join(parts[:end]), margin)
                if parse(f"def body():\n{whole}\n") is not None:
                    yield f"{prompt}{whole}\n"
                    break
        end = next((i for i, line in enumerate(lines) if i and line and not line[0].isspace()), len(lines))
        body, rest = lines[:end], "\n".join(["", *lines[end:], ""])
        others = "\n".join(body[1:])
        yield prompt + indent(dedent("\n".join(body)), margin) + rest
        yield prompt + margin + "\n".join([body[0].lstrip(), others]) + rest
        yield prompt + indent("\n".join([body[0].lstrip(), dedent(others)]), margin) + rest


def _find_body_margin(task: Task) -> str:
    """The indentation of the body of the prompt's function; four spaces more than its head's where it shows none."""
    lines = task.prompt.split("\n")
    for node in tree.body if (tree := parse(task.prompt)) is not None else []:
        if (function := find_definition(node, task.entry_point)) is not None:
            line = lines[function.body[0].lineno - 1]
            return line[: len(line) - len(line.lstrip())] or "    "
    head = next((line for line in reversed(lines) if re.match(r"\s*(async\s+)?def\s", line)), "")
    return f"{head[: len(head) - len(head.lstrip())]}    "


def _add_preamble(task: Task, code: str) -> str:
    """`code` after the imports and definitions of the prompt that it lacks; unchanged where it runs in
    its module, which has them."""
    if task.module is not None or task.project_tests is not None:
        return code
    tree = parse(code)
    own = list_defined_names(tree) if tree is not None else set()
    lines = task.prompt.split("\n")
    preamble: list[str] = []
    prompt = parse_open(task.prompt)
    body = prompt.body if prompt is not None else []
    effects = ProgramEffects(body, task.entry_point)
    for node in body:
        if is_definition_of(node, task.entry_point):
            inner = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
            preamble += [ast.unparse(n) for n in inner if not list_bound_names(n) <= own]
        elif get_line_range(node)[-1] > len(lines):
            continue  # it ends in the body that `parse_open` added: the code restates what the prompt left open
        elif not effects.compute_effects(node).provides <= own:
            preamble += [lines[number - 1] for number in get_line_range(node)]
    if not preamble:
        return code
    first = _find_first_free_line(tree) if tree is not None else 1
    code_lines = code.split("\n")
    return "\n".join([*code_lines[: first - 1], *preamble, "", "", *code_lines[first - 1 :]])


def _find_first_free_line(tree: ast.Module) -> int:
    """The first line where imports may stand: after a `from __future__` import, which must come first."""
    return max(
        (
            get_line_range(node)[-1] + 1
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        ),
        default=1,
    )


def _is_answer(program: str, entry_point: str) -> bool:
    """Whether the program parses and its entry point is more than a placeholder."""
    tree = parse(program)
    binding = [n for n in tree.body if is_definition_of(n, entry_point)] if tree is not None else []
    return any(has_real_body(node, entry_point) for node in binding)


def _starts_with_body(text: str, entry_point: str) -> bool:
    first = next(line for line in text.split("\n") if line.strip())
    return first[0].isspace() and re.match(rf"\s+(?:async\s+)?def\s+{re.escape(entry_point)}\b", first) is None
