"""What a downgrade of the schema must not do: leave tasks that are judged in another way than before."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from app.errors import UnavailableError


def refuse_to_change_tasks(condition: str, what: str) -> None:
    """Raises UnavailableError where tasks under this SQL condition are stored: `what` they would lose, in words."""
    names = op.get_bind().execute(
        text(
            "SELECT DISTINCT datasets.name FROM tasks JOIN datasets ON datasets.id = tasks.dataset_id "
            f"WHERE {condition} ORDER BY datasets.name LIMIT 5"
        )
    )
    if found := names.scalars().all():
        raise UnavailableError(
            f"an older schema has no place for {what}, and tasks of these datasets would be judged without: "
            f"{', '.join(found)}. Delete these datasets first (`bassline datasets delete NAME`)"
        )
