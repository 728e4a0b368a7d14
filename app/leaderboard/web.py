"""The entries of the leaderboard and the answers that the web process keeps."""

from __future__ import annotations

from collections.abc import Sequence

from app.leaderboard.answer import Card
from app.leaderboard.cards import Cards
from app.leaderboard.entries import Entries, Entry
from app.web.http.web import kept, session


def entries() -> list[Entry]:
    """All runs on the leaderboard, newest first. The application keeps them and reads again only those that changed."""
    return kept(Entries).read(session())


def card(runs: Sequence[Entry], dataset: str) -> Card | None:
    """The answer over a dataset ("": over any) of which `runs` are all entries, kept in the same way."""
    return kept(Cards).read(session(), runs, dataset)
