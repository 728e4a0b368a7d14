"""`bassline ...` with the scripted engine behind the engine protocol, and with every message sent twice.

Celery's spawned children run this module again, up to the last line.
"""

from __future__ import annotations

from app.cli.main import main
from app.core.broker.celery_app import CeleryBroker
from app.core.context import make_context, set_current
from tests.fakes import FakeGrader
from tests.integration.chaos.script import load


def send_twice(self, messages, queue) -> None:
    send_once(self, [message for message in messages for _ in range(2)], queue)


send_once, CeleryBroker.send = CeleryBroker.send, send_twice
context = make_context()
context.load_engine, context.make_grader = load, FakeGrader
set_current(context)

if __name__ == "__main__":
    main()
