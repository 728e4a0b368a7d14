"""Whether this process lives, and whether it can do its work."""

from __future__ import annotations

from typing import Any

from flask import Blueprint
from kombu.exceptions import OperationalError
from sqlalchemy.exc import SQLAlchemyError

from app import migrate
from app.celery_app import celery_app
from app.web import context

bp = Blueprint("health", __name__, url_prefix="/api/v1/health")


@bp.get("/live")
def live() -> dict[str, str]:
    """The process answers."""
    return {"status": "live"}


@bp.get("/ready")
def ready() -> tuple[dict[str, Any], int]:
    """200 when the database is at the newest schema and the broker can be reached, else 503 saying which is not."""
    checks = {"database": _database(), "broker": _broker()}
    bad = [fault for fault in checks.values() if fault is not None]
    return {
        "status": "unready" if bad else "ready",
        "checks": {k: v or "ok" for k, v in checks.items()},
    }, 503 if bad else 200


def _database() -> str | None:
    try:
        at = migrate.current(context().database)
    except SQLAlchemyError as error:
        return f"cannot be reached: {type(error).__name__}"
    return None if at == migrate.head() else f"at schema {at}, the code needs {migrate.head()}: run bassline db upgrade"


def _broker() -> str | None:
    try:
        with celery_app.connection_for_write(connect_timeout=1) as connection:
            connection.ensure_connection(max_retries=1, timeout=1)
    except (OSError, OperationalError) as error:
        return f"cannot be reached: {type(error).__name__}"
    return None
