"""The entries of the leaderboard and the answers that the web process keeps."""

from __future__ import annotations

from collections.abc import Sequence

from flask import current_app

from app.http.web import session
from app.leaderboard.answer import Card
from app.leaderboard.cards import Cards
from app.leaderboard.entries import Entries, Entry

KEY = "leaderboard"
CARDS_KEY = "answers"


def entries() -> list[Entry]:
    """All runs on the leaderboard, newest first. The application keeps them and reads again only those that changed."""
    cache: Entries = current_app.extensions.setdefault(KEY, Entries())
    return cache.read(session())


def card(runs: Sequence[Entry], dataset: str) -> Card | None:
    """The answer over a dataset ("": over any) of which `runs` are all entries, kept in the same way."""
    cache: Cards = current_app.extensions.setdefault(CARDS_KEY, Cards())
    return cache.read(session(), runs, dataset)
