"""The whole texts of samples, put together from the events of type `text_delta`, which carry only what was added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.core.events.bus import Event
from app.core.events.event_types import TEXT, TEXT_DELTA


class TextAssembler:
    """Turns each `text_delta` of one run into the `text` event with the whole texts of its samples.

    A sample whose beginning the reader has not seen is left out until an event carries its whole text.
    """

    def __init__(self) -> None:
        self._samples: dict[tuple[str, int], dict[str, Any]] = {}

    def expand(self, event: Event) -> Event | None:
        """The event for readers of whole texts: other types as they are; None where no text of a delta is known."""
        if event.type != TEXT_DELTA:
            return event
        task_id = event.data["task_id"]
        samples = [whole for delta in event.data["samples"] if (whole := self._apply(task_id, delta)) is not None]
        return Event(event.id, TEXT, {"task_id": task_id, "samples": samples}) if samples else None

    def _apply(self, task_id: str, delta: Mapping[str, Any]) -> dict[str, Any] | None:
        key = (task_id, delta["index"])
        known = self._samples.get(key, {"text": "", "pieces": [], "origins": ""})
        at, origins_at = delta["at"], delta["origins_at"]
        if at > len(known["text"]) or origins_at > len(known["origins"]):
            return None
        whole = {
            "index": delta["index"],
            "text": known["text"][:at] + "".join(part for _, part in delta["pieces"]),
            "origins": known["origins"][:origins_at] + delta["origins"],
            "pieces": _append_pieces(_cut_pieces(known["pieces"], len(known["text"]) - at), delta["pieces"]),
        } | {field: delta[field] for field in ("n_tokens", "mean_logprob", "elapsed_s", "finish_reason")}
        self._samples[key] = whole
        return whole


def _cut_pieces(pieces: list[list[str]], excess: int) -> list[list[str]]:
    """The pieces without their last `excess` characters."""
    kept = list(pieces)
    while excess > 0:
        letter, part = kept.pop()
        if len(part) > excess:
            kept.append([letter, part[: len(part) - excess]])
        excess -= len(part)
    return kept


def _append_pieces(pieces: list[list[str]], added: list[list[str]]) -> list[list[str]]:
    """Both lists as one, with neighbours of one origin joined."""
    if pieces and added and pieces[-1][0] == added[0][0]:
        joined = [added[0][0], pieces[-1][1] + added[0][1]]
        return [*pieces[:-1], joined, *map(list, added[1:])]
    return [*pieces, *map(list, added)]
