"""The samples of a run as answers of /v1/completions and of /v1/chat/completions."""

from __future__ import annotations

from typing import Any, Protocol

from app.db.types import utcnow
from app.errors import BadInputError
from app.openai import logprobs
from app.openai.chat_schemas import ChatRequest
from app.openai.logprobs import Place
from app.openai.schemas import CompletionRequest
from app.runs.figures import in_budget_s
from app.runs.models import Run, RunTask
from app.samples.models import Sample


class Answers(Protocol):
    """One of the two forms. A streamed choice is `first`, `piece` for each new text, and `last`."""

    def head(self, run: Run, *, streamed: bool) -> dict[str, Any]:
        """All but the choices."""

    def first(self, index: int) -> dict[str, Any] | None:
        """What comes before the text of a choice."""

    def piece(self, index: int, text: str) -> dict[str, Any]:
        """New text of a choice."""

    def last(self, index: int, text: str, sample: Sample) -> dict[str, Any]:
        """The end of a choice, with the `text` that is still missing."""

    def whole(self, index: int, task: RunTask, sample: Sample) -> dict[str, Any]:
        """A choice that is not streamed. Raises BadInputError."""


class TextAnswers:
    """Answers of /v1/completions."""

    def __init__(self, asked: CompletionRequest) -> None:
        self._asked = asked

    def head(self, run: Run, *, streamed: bool) -> dict[str, Any]:
        """All but the choices."""
        return _head(run, f"cmpl-{run.id.hex}", "text_completion", self._asked.model)

    def first(self, index: int) -> None:
        """Nothing."""

    def piece(self, index: int, text: str) -> dict[str, Any]:
        """New text of a choice."""
        return {"index": index, "text": text, "logprobs": None, "finish_reason": None}

    def last(self, index: int, text: str, sample: Sample) -> dict[str, Any]:
        """The end of a choice, with the `text` that is still missing."""
        return {**self.piece(index, text), **self._end(sample, logprobs.of_sample(sample))}

    def whole(self, index: int, task: RunTask, sample: Sample) -> dict[str, Any]:
        """A choice that is not streamed. With `echo` it begins with the text and log-probabilities of the prompt."""
        if not self._asked.echo:
            return self.last(index, sample.raw, sample)
        if self._asked.wanted().prompt_logprobs is not None and task.prompt_logprobs is None:
            raise BadInputError("budget was over before the whole prompt was scored: give more seconds", "budget")
        text, places = task.prompt_sent or "", logprobs.of_prompt(task)
        if self._asked.max_tokens:
            text, places = text + sample.raw, places + logprobs.of_sample(sample) + _end_of_sequence(sample)
        return {**self.piece(index, text), **self._end(sample, places)}

    def _end(self, sample: Sample, places: list[Place]) -> dict[str, Any]:
        wanted = self._asked.logprobs
        shown = None if wanted is None else logprobs.for_completion(places, with_top=wanted > 0)
        return {"logprobs": shown, "finish_reason": finish_reason(sample), "bassline": _own(sample)}


class ChatAnswers:
    """Answers of /v1/chat/completions."""

    def __init__(self, asked: ChatRequest) -> None:
        self._asked = asked

    def head(self, run: Run, *, streamed: bool) -> dict[str, Any]:
        """All but the choices."""
        kind = "chat.completion.chunk" if streamed else "chat.completion"
        return _head(run, f"chatcmpl-{run.id.hex}", kind, self._asked.model)

    def first(self, index: int) -> dict[str, Any]:
        """The role of the speaker."""
        return self._delta(index, {"role": "assistant", "content": ""})

    def piece(self, index: int, text: str) -> dict[str, Any]:
        """New text of a choice."""
        return self._delta(index, {"content": text})

    def last(self, index: int, text: str, sample: Sample) -> dict[str, Any]:
        """The end of a choice, with the `text` that is still missing."""
        return {**self._delta(index, {"content": text} if text else {}), **self._end(sample)}

    def whole(self, index: int, task: RunTask, sample: Sample) -> dict[str, Any]:
        """A choice that is not streamed."""
        message = {"role": "assistant", "content": sample.raw, "refusal": None}
        return {"index": index, "message": message, **self._end(sample)}

    def _delta(self, index: int, delta: dict[str, Any]) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _end(self, sample: Sample) -> dict[str, Any]:
        shown = logprobs.for_chat(logprobs.of_sample(sample)) if self._asked.logprobs else None
        return {"logprobs": shown, "finish_reason": finish_reason(sample), "bassline": _own(sample)}


def finish_reason(sample: Sample) -> str:
    """OpenAI's word for the end of a sample; it has none for a deadline."""
    return "stop" if sample.finish_reason == "stop" else "length"


def _head(run: Run, name: str, kind: str, model: str) -> dict[str, Any]:
    return {"id": name, "object": kind, "created": int((run.created_at or utcnow()).timestamp()), "model": model}


def _own(sample: Sample) -> dict[str, Any]:
    return {
        "finish_reason": sample.finish_reason,
        "finished_s": in_budget_s(sample),
        "mean_logprob": sample.mean_logprob,
    }


def _end_of_sequence(sample: Sample) -> list[Place]:
    """The token that ended the sample: a caller who asks for the prompt's tokens counts on one entry for each token
    drawn."""
    return [] if sample.eos_logprob is None else [Place("", sample.eos_logprob, [])]
