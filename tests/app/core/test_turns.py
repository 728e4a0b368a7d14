"""Whose turn it is at a worker."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from app.core.broker import turns
from app.core.broker.turns import TurnScheduler


@dataclass
class Work:
    """A run that waits."""

    key: uuid.UUID
    jobs_in_progress: int = 0


def test_work_whose_engine_is_not_loaded_keeps_its_place_when_others_are_forgotten(monkeypatch):
    monkeypatch.setattr(turns, "MAX_REMEMBERED", 2)
    scheduler = TurnScheduler()
    served_lately, loaded, waited_longer = (Work(uuid.UUID(int=number)) for number in range(3))
    assert scheduler.choose([waited_longer], lambda _: True) is waited_longer
    assert scheduler.choose([served_lately], lambda _: False) is served_lately  # loads an engine: its turn begins
    assert scheduler.choose([waited_longer, served_lately, loaded], lambda w: w is loaded) is loaded
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    assert scheduler.choose([served_lately, waited_longer], lambda _: True) is waited_longer
