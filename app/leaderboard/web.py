"""The entries of the leaderboard that the web process keeps."""

from __future__ import annotations

from flask import current_app

from app.http.web import session
from app.leaderboard.entries import Entries, Entry

KEY = "leaderboard"


def entries() -> list[Entry]:
    """All runs on the leaderboard, newest first. The application keeps them and reads again only those that changed."""
    cache: Entries = current_app.extensions.setdefault(KEY, Entries())
    return cache.read(session())
