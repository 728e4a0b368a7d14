"""The analyses of studies that the web process keeps."""

from __future__ import annotations

from flask import current_app

from app.studies.analysis import Analyses

KEY = "studies"


def analyses() -> Analyses:
    """The cache of this application, shared by pages and API."""
    found: Analyses = current_app.extensions.setdefault(KEY, Analyses())
    return found
