"""The models page."""

from __future__ import annotations

from flask import Blueprint, render_template

from app.models import service

bp = Blueprint("models", __name__)


@bp.get("/models")
def index() -> str:
    """The models that have a name of their own."""
    return render_template("models/index.html", models=service.list_models())
