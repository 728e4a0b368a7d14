"""Identifiers: their form, and that they follow creation."""

from __future__ import annotations

import time
import uuid

from app.core.db.types import generate_id


def test_ids_are_uuids_of_version_7_with_the_time(monkeypatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    made = generate_id()
    assert (made.version, made.variant, made.int >> 80) == (7, uuid.RFC_4122, 1_700_000_000_123)


def test_ids_of_one_millisecond_follow_creation(monkeypatch) -> None:
    made = []
    for microsecond in range(1000):
        monkeypatch.setattr(time, "time_ns", lambda at=microsecond: 1_700_000_000_000_000_000 + at * 1000)
        made.append(generate_id())
    assert made == sorted(made)
    assert len(set(made)) == 1000
