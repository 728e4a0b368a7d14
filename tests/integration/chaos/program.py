"""`bassline ...` with the scripted engine behind the engine protocol, and with every message sent twice.

Celery's spawned children run this module again, up to the last line.
"""

from __future__ import annotations

from app.cli import main
from app.context import install, make_context
from app.runs import enqueue
from tests.fakes import FakeGrader
from tests.integration.chaos.script import load


def ring_twice(bells, queue) -> None:
    ring_once([bell for bell in bells for _ in range(2)], queue)


ring_once = enqueue.ring
enqueue.ring = ring_twice
context = make_context()
context.load_engine, context.make_grader = load, FakeGrader
install(context)

if __name__ == "__main__":
    main()
