"""One table of background work; the policy of a run is stored with it; equal names for equal columns."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

UTC = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
OPEN = sa.text("state IN ('queued', 'running')")
RENAMED = {"attempt_token": "fence", "worker": "claimed_by"}
IMPORT_OPEN = "its samples are being imported"

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    jobs = op.create_table(
        "jobs",
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("key", sa.String(length=300), nullable=True),
        sa.Column("queue", sa.String(length=40), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "queued", "running", "finished", "failed", "cancelled",
                name="state", native_enum=False, create_constraint=True, length=20,
            ),
            nullable=False,
        ),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("arguments", JSON, nullable=False),
        sa.Column("input", sa.LargeBinary(), nullable=True),
        sa.Column("cursor", JSON, nullable=False),
        sa.Column("result", JSON, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("started_at", UTC, nullable=True),
        sa.Column("finished_at", UTC, nullable=True),
        sa.Column("cancel_requested_at", UTC, nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Uuid(), nullable=True),
        sa.Column("claimed_by", sa.String(length=200), nullable=True),
        sa.Column("lease_until", UTC, nullable=True),
        sa.Column("enqueued_at", UTC, nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )  # fmt: skip
    op.create_index("ix_jobs_state_lease_until", "jobs", ["state", "lease_until"])
    op.create_index(
        "ix_jobs_open_key", "jobs", ["kind", "key"], unique=True, postgresql_where=OPEN, sqlite_where=OPEN
    )  # fmt: skip
    _move_checks(jobs)
    op.drop_table("dataset_check_jobs")
    op.drop_table("load_tests")
    op.drop_index("ix_task_words_unread", "task_words")
    for old, new in RENAMED.items():
        op.execute(f"ALTER TABLE run_tasks RENAME COLUMN {old} TO {new}")
    op.add_column("runs", sa.Column("policy", sa.String(length=20), server_default="evaluation", nullable=False))
    op.execute("UPDATE runs SET policy = 'arm' WHERE id IN (SELECT run_id FROM study_arms)")
    op.execute("UPDATE runs SET policy = 'completion' WHERE kind = 'complete'")


def _move_checks(jobs: sa.Table) -> None:
    """Checks that have not ended become jobs, with what they have judged; broken-off imports become deletions."""
    meta = sa.MetaData()
    checks = sa.Table(
        "dataset_check_jobs", meta, sa.Column("id", sa.Uuid()), sa.Column("dataset_id", sa.Uuid()),
        sa.Column("sandbox", sa.String()), sa.Column("cursor", JSON), sa.Column("failed", JSON),
    )  # fmt: skip
    datasets = sa.Table("datasets", meta, sa.Column("id", sa.Uuid()), sa.Column("name", sa.String()))
    runs = sa.Table(
        "runs", meta, sa.Column("id", sa.Uuid()), sa.Column("name", sa.String()), sa.Column("error", sa.Text()),
        sa.Column("created_at", UTC),
    )  # fmt: skip
    connection = op.get_bind()
    waits = {"queue": "exec", "priority": 0, "state": "queued", "done": 0, "total": 0, "message": "", "attempt": 0}
    for row in connection.execute(
        sa.select(checks, datasets.c.name).join(datasets, datasets.c.id == checks.c.dataset_id)
    ):
        failed = {task_id: [] for task_id in row.failed}
        connection.execute(
            sa.insert(jobs).values(
                **waits, id=row.id, kind="check_dataset", subject=row.name, key=f"{row.dataset_id} {row.sandbox}",
                arguments={"dataset_id": str(row.dataset_id)}, cursor={**row.cursor, "failed": failed},
                created_at=sa.func.current_timestamp(),
            )
        )  # fmt: skip
    for row in connection.execute(sa.select(runs).where(runs.c.error == IMPORT_OPEN)):
        connection.execute(
            sa.insert(jobs).values(
                **waits, id=row.id, kind="delete_object", subject=row.name, arguments={"run_ids": [str(row.id)]},
                cursor={}, created_at=row.created_at,
            )
        )  # fmt: skip


def downgrade() -> None:
    op.drop_column("runs", "policy")
    for old, new in RENAMED.items():
        op.execute(f"ALTER TABLE run_tasks RENAME COLUMN {new} TO {old}")
    op.create_index(
        "ix_task_words_unread", "task_words", ["id"],
        postgresql_where=sa.text("words IS NULL"), sqlite_where=sa.text("words IS NULL"),
    )  # fmt: skip
    op.create_table(
        "load_tests",
        sa.Column("settings", JSON, nullable=False),
        sa.Column("idle", JSON, nullable=False),
        sa.Column("points", JSON, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_load_tests"),
    )
    op.create_index("ix_load_tests_created_at", "load_tests", ["created_at"])
    op.create_index("ix_load_tests_name", "load_tests", ["name"])
    op.create_table(
        "dataset_check_jobs",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("sandbox", sa.String(length=200), nullable=False),
        sa.Column("claimed_by", sa.String(length=200), nullable=True),
        sa.Column("lease_until", UTC, nullable=True),
        sa.Column("fence", sa.Uuid(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("cursor", JSON, nullable=False),
        sa.Column("failed", JSON, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_dataset_check_jobs_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_dataset_check_jobs"),
        sa.UniqueConstraint("dataset_id", "sandbox", name="uq_dataset_check_jobs_dataset_id_sandbox"),
    )
    op.drop_table("jobs")
