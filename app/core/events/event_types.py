"""The types of events in a run's stream and the fields of each. Clients rely on these names.

A task that is cancelled or skipped while it waits sends no event: the run's `state` event covers it.
`origins` has one letter per token: d if the drafter proposed it, t if the target supplied it; `pieces` is the text cut
where that changes, as [letter, text].

A bus carries texts as `text_delta`, so that a completion's events are about as long as its texts. A reader gets them as
`text`, with whole texts, unless it asks for the deltas (app/core/events/texts.py).
"""

from __future__ import annotations

from collections.abc import Mapping

STATE = "state"
LOADING = "loading"
TASK = "task"
TOKENS = "tokens"
TEXT = "text"
TEXT_DELTA = "text_delta"
SAMPLE = "sample"
GRADED = "graded"

PAYLOADS: Mapping[str, tuple[str, ...]] = {
    # The run changed state; a final one ends the stream. `error` is why it failed or was interrupted, else null.
    STATE: ("state", "error"),
    # A model is fetched or loaded, or measuring waits for a quiet machine.
    LOADING: ("message",),
    # A task changed state. `position` is its place in the run, from 0; `error` is why it failed, else null.
    TASK: ("task_id", "position", "state", "error"),
    # While decoding, at most 4 a second: tokens of all samples so far, and how many samples have ended.
    TOKENS: ("task_id", "elapsed_s", "tokens", "finished"),
    # Completions only: whole texts of samples that grew, at most 10 events a second (one while nobody listens), and of
    # samples as they end.
    TEXT: ("task_id", "samples"),
    # The same, of each sample only what the event before it did not have.
    TEXT_DELTA: ("task_id", "samples"),
    SAMPLE: ("task_id", "index", "finish_reason", "n_tokens", "mean_logprob", "finished_s"),
    # `trust` is in-guest where the program could have forged its verdict, else proxy.
    GRADED: ("task_id", "index", "verdict", "trust"),
}
"""The fields of each type's `data`: all of them are always there."""

TEXT_SAMPLE = ("index", "text", "pieces", "origins", "n_tokens", "mean_logprob", "elapsed_s", "finish_reason")
"""The fields of each of `samples` in an event of type `text`."""

TEXT_DELTA_SAMPLE = (
    "index", "at", "pieces", "origins_at", "origins", "n_tokens", "mean_logprob", "elapsed_s", "finish_reason"
)  # fmt: skip
"""The fields of each of `samples` in an event of type `text_delta`.

`pieces` replace the text from its character (code point) `at` on, and `origins` the letters from `origins_at` on. With
both 0 they are the whole text: so begins every sample, and one that is decoded again.
"""
