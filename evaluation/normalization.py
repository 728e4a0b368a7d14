"""Normalizes a model's text before code is sought in it: line ends, reasoning, unusual spaces, interpreter prompts.

Every function here runs in time linear in the text.
"""

from __future__ import annotations

import re

from evaluation.reasoning import strip_reasoning

_SPACES = {
    **dict.fromkeys(map(ord, "\u00a0\u1680\u2007\u202f\u205f\u3000"), " "),
    **dict.fromkeys(range(0x2000, 0x200B), " "),
}
_NO_WIDTH = dict.fromkeys(map(ord, "\ufeff\u200b\u2060"))
_PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_TYPED_FUNCTION = re.compile(r"[ \t]*>>> (?:async )?def ")
_FENCE_START = re.compile(r" {0,3}(?:```|~~~)")


def convert_line_ends(text: str) -> str:
    """The text with every line end as one newline."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def extract_answer_text(text: str) -> str:
    """The text without a byte order mark and without the part that the model marked as reasoning, closed or not."""
    return strip_reasoning(text.removeprefix("\ufeff"))


def replace_unusual_spaces(text: str) -> str:
    """The text with an ordinary space for every unusual one and no zero-width ones; strings in it change too."""
    return text.translate(_SPACES | _NO_WIDTH)


def strip_interpreter_prompts(text: str) -> str:
    """The code and fences of an interactive session that defines a function; any other text unchanged."""
    lines = text.split("\n")
    if not any(_TYPED_FUNCTION.match(line) for line in lines):
        return text
    kept = [line for line in lines if _PROMPT.match(line) or _FENCE_START.match(line)]
    return "\n".join(_PROMPT.sub("", line, count=1) for line in kept) + "\n"
