"""The forms in which a server takes a prompt: a text, a conversation, or the two sides of a gap."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.remote.target import CHAT_PATH, COMPLETIONS_PATH, INFILL_PATH
from decoding.models.infilling import FORMATS, InfillFormat

BY_SUFFIX, BY_INFILL = "suffix", INFILL_PATH


class RemotePrompt(str):
    """A prompt that is not one text: reads as JSON, as which it is stored, and holds the fields of its request.

    With `is_answer_fenced` the answer is what follows the reply's first fence, because the server does not write on
    from a fence that the prompt opens.
    """

    path: str
    fields: Mapping[str, Any]
    is_answer_fenced: bool

    @classmethod
    def build(cls, path: str, fields: Mapping[str, Any], *, is_answer_fenced: bool = False) -> RemotePrompt:
        """The prompt with these fields, for this path."""
        prompt = cls(json.dumps(fields, ensure_ascii=False))
        prompt.path, prompt.fields, prompt.is_answer_fenced = path, fields, is_answer_fenced
        return prompt


def get_request_form(prompt: str | tuple[int, ...]) -> tuple[str, Mapping[str, Any], bool]:
    """(path, fields, whether the answer follows a fence) of the request for a prompt."""
    if isinstance(prompt, RemotePrompt):
        return prompt.path, prompt.fields, prompt.is_answer_fenced
    return COMPLETIONS_PATH, {"prompt": prompt if isinstance(prompt, str) else list(prompt)}, False


def build_chat_prompt(
    messages: Sequence[Mapping[str, str]],
    reply_prefix: str,
    continuation: Mapping[str, Any] | None,
    template_kwargs: Mapping[str, Any] | None,
) -> RemotePrompt:
    """A conversation whose reply begins with `reply_prefix`, by `continuation`: the fields with which the server writes
    on from it. Where that is None, `reply_prefix`, a fence, is not sent, and the reply is dropped up to and including
    the line of its first fence."""
    fields: dict[str, Any] = {"messages": list(messages)}
    if template_kwargs:
        fields["chat_template_kwargs"] = dict(template_kwargs)
    if not reply_prefix:
        return RemotePrompt.build(CHAT_PATH, fields)
    if continuation is None:
        return RemotePrompt.build(CHAT_PATH, fields, is_answer_fenced=True)
    fields["messages"] = [*messages, {"role": "assistant", "content": reply_prefix}]
    return RemotePrompt.build(CHAT_PATH, {**fields, **continuation})


@dataclass(frozen=True, slots=True)
class RemoteInfillFormat:
    """How a server is asked to fill a gap: by the field `suffix`, or by llama.cpp's /infill. The model's own tokens
    never reach this side, so there are no markers."""

    way: str
    markers: tuple[str, ...] = ()

    def render(self, prefix: str, suffix: str) -> RemotePrompt:
        """The prompt for the gap between the two texts."""
        if self.way == BY_SUFFIX:
            return RemotePrompt.build(COMPLETIONS_PATH, {"prompt": prefix, "suffix": suffix})
        return RemotePrompt.build(INFILL_PATH, {"input_prefix": prefix, "input_suffix": suffix, "prompt": ""})


def find_infill_format(way: str | None) -> RemoteInfillFormat | InfillFormat | None:
    """The format for the way that a server offers: `suffix`, `/infill`, or the name of a family whose markers its model
    has; None for None."""
    if way in (BY_SUFFIX, BY_INFILL):
        return RemoteInfillFormat(way)
    return next((each for each in FORMATS if each.family == way), None)
