"""Two runs over the same dataset, side by side: what changed, by how much, and where."""

from __future__ import annotations

from flask import Blueprint, render_template

bp = Blueprint("compare", __name__)


@bp.get("/compare")
def index() -> str:
    """The comparison of `?a=` (the reference) with `?b=`."""
    return render_template("compare/index.html")
