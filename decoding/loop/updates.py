"""Updates to callers while samples grow."""

from __future__ import annotations

from collections.abc import Sequence

from decoding.request import OnBatchUpdate, Origin, Update
from decoding.state.request_state import RequestState
from decoding.state.row import Row


def publish_updates(
    rows: Sequence[Row], on_update: OnBatchUpdate | None, added: Sequence[tuple[Origin, ...]] | None = None
) -> None:
    """Call `on_update` once for each request of `rows`; `added` are the origins of each row's new tokens."""
    if on_update is None:
        return
    updates: dict[RequestState, list[Update]] = {}
    for r, row in enumerate(rows):
        updates.setdefault(row.state, []).extend(
            Update(
                index=sample.index,
                text=row.stream.text,
                n_tokens=sample.n_tokens,
                origins=added[r] if added else (),
                mean_logprob=sample.mean_logprob,
                elapsed_s=row.state.clock.elapsed_s,
                finish_reason=sample.finish_reason,
                ends=tuple(sample.ends[-len(added[r]) :]) if added and added[r] else (),
            )
            for sample in row.samples
        )
    for state, own in updates.items():
        on_update(state.position, own)
