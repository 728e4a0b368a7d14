"""The types of events in a run's stream and the fields of each. Clients rely on these names.

A task that is cancelled or skipped while it waits sends no event: the run's `state` event covers it.
`origins` has one letter per token: d if the drafter proposed it, t if the target supplied it; `pieces` is the text cut
where that changes, as [letter, text].
"""

from __future__ import annotations

from collections.abc import Mapping

STATE = "state"
LOADING = "loading"
TASK = "task"
TOKENS = "tokens"
TEXT = "text"
SAMPLE = "sample"
GRADED = "graded"

PAYLOADS: Mapping[str, tuple[str, ...]] = {
    # The run changed state; a final one ends the stream. `error` is why it failed or was interrupted, else null.
    STATE: ("state", "error"),
    # A model is fetched or loaded.
    LOADING: ("message",),
    # A task changed state. `position` is its place in the run, from 0; `error` is why it failed, else null.
    TASK: ("task_id", "position", "state", "error"),
    # While decoding, at most 4 a second: tokens of all samples so far, and how many samples have ended.
    TOKENS: ("task_id", "elapsed_s", "tokens", "finished"),
    # Completions only: whole texts so far of the samples that grew, at most 10 a second.
    TEXT: ("task_id", "samples"),
    SAMPLE: ("task_id", "index", "finish_reason", "n_tokens", "mean_logprob", "finished_s"),
    # `trust` is in-guest where the program could have forged its verdict, else proxy.
    GRADED: ("task_id", "index", "verdict", "trust"),
}
"""The fields of each type's `data`: all of them are always there."""

TEXT_SAMPLE = ("index", "text", "pieces", "origins", "n_tokens", "mean_logprob", "elapsed_s", "finish_reason")
"""The fields of each of `samples` in an event of type `text`."""
