"""The samples of a run as answers of /v1/completions and of /v1/chat/completions.

Log-probabilities are the target's at temperature 1, before top-p. A token is shown as the text it added,
"" for one that only begins a character.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from app.core.db.types import get_utc_time
from app.core.errors import BadInputError
from app.openai.schemas import ChatRequest, CompletionRequest
from app.runs.figures import get_finish_time
from app.runs.models import Run, RunTask
from app.samples.models import Sample


class TextAnswers:
    """Answers of /v1/completions. A streamed choice is `build_first`, `build_piece` for each new text, `build_last`."""

    def __init__(self, asked: CompletionRequest) -> None:
        self._asked = asked

    def build_head(self, run: Run, *, streamed: bool) -> dict[str, Any]:
        """All but the choices."""
        return _head(run, f"cmpl-{run.id.hex}", "text_completion", self._asked.model)

    def build_first(self, index: int) -> None:
        """Nothing comes before the text."""

    def build_piece(self, index: int, text: str) -> dict[str, Any]:
        """New text of a choice."""
        return {"index": index, "text": text, "logprobs": None, "finish_reason": None}

    def build_last(self, index: int, text: str, sample: Sample) -> dict[str, Any]:
        """The end of a choice, with the `text` that is still missing."""
        return self._build_end(index, text, sample, _list_tokens(sample))

    def build_choice(self, index: int, task: RunTask, sample: Sample) -> dict[str, Any]:
        """A choice that is not streamed. With `echo` it begins with the text and log-probabilities of the prompt.

        Raises BadInputError if there was no time to score the prompt.
        """
        if not self._asked.echo:
            return self.build_last(index, sample.raw, sample)
        if self._asked.logprobs is not None and task.prompt_logprobs is None:
            raise BadInputError("budget was over before the whole prompt was scored: give more seconds", "budget")
        text, tokens = task.prompt_sent or "", [TokenLogprob(*token) for token in task.prompt_logprobs or []]
        if self._asked.max_tokens:
            text, tokens = text + sample.raw, tokens + _list_tokens(sample)
            if sample.eos_logprob is not None:  # clients expect one entry for each token drawn
                tokens.append(TokenLogprob("", sample.eos_logprob, []))
        return self._build_end(index, text, sample, tokens)

    def _build_end(self, index: int, text: str, sample: Sample, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
        if self._asked.logprobs is None:
            return {**self.build_piece(index, text), **_build_end_fields(sample, None)}
        ends = list(accumulate(len(token.text) for token in tokens))
        logprobs = {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            # The chosen token is one of them, too.
            "top_logprobs": [_map_by_text(token) for token in tokens] if self._asked.logprobs else None,
            "text_offset": [0, *ends[:-1]] if tokens else [],
        }
        return {**self.build_piece(index, text), **_build_end_fields(sample, logprobs)}


class ChatAnswers:
    """Answers of /v1/chat/completions, with the same methods."""

    def __init__(self, asked: ChatRequest) -> None:
        self._asked = asked

    def build_head(self, run: Run, *, streamed: bool) -> dict[str, Any]:
        """All but the choices."""
        kind = "chat.completion.chunk" if streamed else "chat.completion"
        return _head(run, f"chatcmpl-{run.id.hex}", kind, self._asked.model)

    def build_first(self, index: int) -> dict[str, Any]:
        """The role of the speaker."""
        return self._build_delta(index, {"role": "assistant", "content": ""})

    def build_piece(self, index: int, text: str) -> dict[str, Any]:
        """New text of a choice."""
        return self._build_delta(index, {"content": text})

    def build_last(self, index: int, text: str, sample: Sample) -> dict[str, Any]:
        """The end of a choice, with the `text` that is still missing."""
        return {**self._build_delta(index, {"content": text} if text else {}), **self._build_chat_end(sample)}

    def build_choice(self, index: int, task: RunTask, sample: Sample) -> dict[str, Any]:
        """A choice that is not streamed."""
        message = {"role": "assistant", "content": sample.raw, "refusal": None}
        return {"index": index, "message": message, **self._build_chat_end(sample)}

    def _build_delta(self, index: int, delta: dict[str, Any]) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _build_chat_end(self, sample: Sample) -> dict[str, Any]:
        if not self._asked.logprobs:
            return _build_end_fields(sample, None)
        content = [
            {**_name_token(token.text, token.logprob), "top_logprobs": [_name_token(*likely) for likely in token.top]}
            for token in _list_tokens(sample)
        ]
        return _build_end_fields(sample, {"content": content, "refusal": None})


Answers = TextAnswers | ChatAnswers


def count_usage(tasks: Sequence[RunTask]) -> dict[str, Any]:
    """In OpenAI's terms, the tokens of prompts and samples, and how many proposed tokens were accepted."""
    samples = [sample for task in tasks for sample in task.samples]
    prompt = sum(task.n_prompt_tokens or 0 for task in tasks)
    completion = sum(sample.n_tokens for sample in samples)
    drafted, accepted = (sum(getattr(sample, name) for sample in samples) for name in ("n_drafted", "n_accepted"))
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(task.cached_tokens or 0 for task in tasks)},
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
            "drafted_tokens": drafted,
        },
    }


def describe_timing(run: Run, tasks: Sequence[RunTask]) -> dict[str, Any]:
    """The id of the run, and for each prompt the seconds of waiting and of decoding."""
    return {"run": str(run.id), "queue_s": [t.queue_s for t in tasks], "wall_s": [t.wall_s for t in tasks]}


class TokenLogprob(NamedTuple):
    """A token, its log-probability (None for the first of a prompt), and the top tokens there, if asked for."""

    text: str
    logprob: float | None
    top: list[Any]


def _list_tokens(sample: Sample) -> list[TokenLogprob]:
    # Text that was held back, since it might have begun a stop string, belongs to the last token.
    ends = [*(sample.ends or [])[:-1], len(sample.raw)] if sample.ends else []
    texts = [sample.raw[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=False)]
    tops = sample.top_logprobs or [[]] * len(texts)
    return [TokenLogprob(*token) for token in zip(texts, sample.logprobs, tops, strict=True)]


def _head(run: Run, name: str, kind: str, model: str) -> dict[str, Any]:
    return {"id": name, "object": kind, "created": int((run.created_at or get_utc_time()).timestamp()), "model": model}


def _build_end_fields(sample: Sample, logprobs: dict[str, Any] | None) -> dict[str, Any]:
    own = {
        "finish_reason": sample.finish_reason,
        "finished_s": get_finish_time(sample),
        "mean_logprob": sample.mean_logprob,
    }
    # OpenAI has no word for a deadline.
    finish_reason = "stop" if sample.finish_reason == "stop" else "length"
    return {"logprobs": logprobs, "finish_reason": finish_reason, "bassline": own}


def _map_by_text(token: TokenLogprob) -> dict[str, float] | None:
    if token.logprob is None:
        return None
    found: dict[str, float] = {}
    for text, logprob in (*token.top, (token.text, token.logprob)):
        found.setdefault(text, logprob)  # of two tokens with one text the more likely counts
    return found


def _name_token(text: str, logprob: float | None) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
