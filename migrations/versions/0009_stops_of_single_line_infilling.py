"""Tasks of the single-line infilling set hold the line end that stops their answers; it was added at each request"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TASKS = sa.table(
    "tasks",
    sa.column("id", sa.Uuid()),
    sa.column("task_id", sa.String()),
    sa.column("stop", sa.JSON().with_variant(postgresql.JSONB(), "postgresql")),
)
LINE_END = "\n"


def upgrade() -> None:
    _change(lambda stop: [LINE_END, *(s for s in stop if s != LINE_END)])


def downgrade() -> None:
    _change(lambda stop: [s for s in stop if s != LINE_END])


def _change(new_stop) -> None:
    connection = op.get_bind()
    single_line = TASKS.c.task_id.startswith("SingleLineInfilling/", autoescape=True)
    for row in connection.execute(sa.select(TASKS.c.id, TASKS.c.stop).where(single_line)).all():
        connection.execute(sa.update(TASKS).where(TASKS.c.id == row.id).values(stop=new_stop(row.stop)))
