"""The event stream of a run ends with the run, and not before."""

from __future__ import annotations

from app.core.states import RunState
from app.runs import event_stream, service


def test_a_run_that_was_resumed_and_has_ended_again_is_told_to_its_last_end(ctx, spec):
    run_id = service.submit(ctx, spec())
    service.cancel(ctx, run_id)
    service.resume(ctx, run_id)
    ctx.bus.publish(run_id, "sample", {"index": 0})
    service.cancel(ctx, run_id)
    events = list(event_stream.follow_events(ctx, run_id, beat_s=0.01))
    assert [event.data.get("state", event.type) for event in events if event] == [
        RunState.CANCELLED,
        RunState.QUEUED,
        "sample",
        RunState.CANCELLED,
    ]
