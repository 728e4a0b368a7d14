"""The first schema"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

UTC = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column(
            "kind",
            sa.Enum("builtin", "imported", "prompt", name="kind", native_enum=False, create_constraint=True, length=20),
            nullable=False,
        ),
        sa.Column("n_tasks", sa.Integer(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("name", "sha256", name=op.f("uq_datasets_name_sha256")),
    )
    with op.batch_alter_table("datasets", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_datasets_name"), ["name"], unique=False)
        batch_op.create_index(batch_op.f("ix_datasets_sha256"), ["sha256"], unique=False)

    op.create_table(
        "users",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=True),
        sa.Column("model", sa.String(length=500), nullable=True),
        sa.Column("started_at", UTC, nullable=False),
        sa.Column("last_seen_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_workers")),
    )
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_workers_last_seen_at"), ["last_seen_at"], unique=False)

    op.create_table(
        "dataset_checks",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("sandbox", sa.String(length=200), nullable=False),
        sa.Column("failed", JSON, nullable=False),
        sa.Column("checked_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_dataset_checks_dataset_id_datasets"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dataset_checks")),
        sa.UniqueConstraint("dataset_id", "sandbox", name=op.f("uq_dataset_checks_dataset_id_sandbox")),
    )
    op.create_table(
        "runs",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "eval",
                "complete",
                "baseline",
                "imported",
                name="kind",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=False,
        ),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "running",
                "finished",
                "interrupted",
                "cancelled",
                "failed",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=False,
        ),
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("target", sa.String(length=500), nullable=False),
        sa.Column("drafter", sa.String(length=500), nullable=False),
        sa.Column("draft_length", sa.String(length=40), nullable=False),
        sa.Column("acceptance", sa.String(length=20), nullable=False),
        sa.Column("dtype", sa.String(length=20), nullable=False),
        sa.Column("device", sa.String(length=20), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("budget_s", sa.Double(), nullable=False),
        sa.Column("temperature", sa.Double(), nullable=False),
        sa.Column("top_p", sa.Double(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("max_tokens", sa.Integer(), nullable=False),
        sa.Column("prompt_mode", sa.String(length=20), nullable=False),
        sa.Column("prompt_mode_used", sa.String(length=20), nullable=True),
        sa.Column("time_limit_s", sa.Double(), nullable=True),
        sa.Column("n_tasks", sa.Integer(), nullable=False),
        sa.Column("excluded", JSON, nullable=False),
        sa.Column("graded", sa.Boolean(), nullable=False),
        sa.Column("pinned_worker", sa.String(length=200), nullable=True),
        sa.Column("provenance", JSON, nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("figures", JSON, nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("rung_at", UTC, nullable=True),
        sa.Column("started_at", UTC, nullable=True),
        sa.Column("finished_at", UTC, nullable=True),
        sa.Column("cancel_requested_at", UTC, nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.CheckConstraint("budget_s > 0", name=op.f("ck_runs_budget_positive")),
        sa.CheckConstraint("n >= 1", name=op.f("ck_runs_n_positive")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_runs_dataset_id_datasets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_runs_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_runs_dataset_id"), ["dataset_id"], unique=False)
        batch_op.create_index("ix_runs_kind_state", ["kind", "state"], unique=False)
        batch_op.create_index(batch_op.f("ix_runs_name"), ["name"], unique=False)

    op.create_table(
        "tasks",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.String(length=200), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("entry_point", sa.String(length=200), nullable=False),
        sa.Column("test", sa.Text(), nullable=False),
        sa.Column("canonical_solution", sa.Text(), nullable=False),
        sa.Column("suffix", sa.Text(), nullable=True),
        sa.Column("stop", JSON, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_tasks_dataset_id_datasets"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
        sa.UniqueConstraint("dataset_id", "position", name=op.f("uq_tasks_dataset_id_position")),
        sa.UniqueConstraint("dataset_id", "task_id", name=op.f("uq_tasks_dataset_id_task_id")),
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("prefix", sa.String(length=20), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("last_used_at", UTC, nullable=True),
        sa.Column("revoked_at", UTC, nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_tokens_user_id_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("prefix", name=op.f("uq_tokens_prefix")),
    )
    op.create_table(
        "run_curves",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("n_tasks", sa.Integer(), nullable=False),
        sa.Column("budgets", JSON, nullable=False),
        sa.Column("pass_first", JSON, nullable=False),
        sa.Column("pass_all", JSON, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_curves_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_curves")),
    )
    op.create_table(
        "run_tasks",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("task_pk", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "decoding",
                "decoded",
                "grading",
                "finished",
                "failed",
                "cancelled",
                "skipped",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=False,
        ),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("attempt_token", sa.Uuid(), nullable=True),
        sa.Column("worker", sa.String(length=200), nullable=True),
        sa.Column("lease_until", UTC, nullable=True),
        sa.Column("rung_at", UTC, nullable=True),
        sa.Column("queued_at", UTC, nullable=False),
        sa.Column("started_at", UTC, nullable=True),
        sa.Column("finished_at", UTC, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("prompt_sent", sa.Text(), nullable=True),
        sa.Column("prompt_version", sa.String(length=40), nullable=True),
        sa.Column("n_prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("queue_s", sa.Double(), nullable=True),
        sa.Column("prefill_s", sa.Double(), nullable=True),
        sa.Column("draft_s", sa.Double(), nullable=True),
        sa.Column("verify_s", sa.Double(), nullable=True),
        sa.Column("other_s", sa.Double(), nullable=True),
        sa.Column("wall_s", sa.Double(), nullable=True),
        sa.Column("sandbox_s", sa.Double(), nullable=True),
        sa.Column("n_rounds", sa.Integer(), nullable=True),
        sa.Column("peak_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_tasks_run_id_runs"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["task_pk"], ["tasks.id"], name=op.f("fk_run_tasks_task_pk_tasks")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_tasks")),
        sa.UniqueConstraint("run_id", "position", name=op.f("uq_run_tasks_run_id_position")),
        sa.UniqueConstraint("run_id", "task_pk", name=op.f("uq_run_tasks_run_id_task_pk")),
    )
    with op.batch_alter_table("run_tasks", schema=None) as batch_op:
        batch_op.create_index("ix_run_tasks_state_lease_until", ["state", "lease_until"], unique=False)
        batch_op.create_index(batch_op.f("ix_run_tasks_task_pk"), ["task_pk"], unique=False)

    op.create_table(
        "samples",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("run_task_id", sa.Uuid(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("n_tokens", sa.Integer(), nullable=False),
        sa.Column("mean_logprob", sa.Double(), nullable=True),
        sa.Column("finish_reason", sa.String(length=20), nullable=False),
        sa.Column("first_token_s", sa.Double(), nullable=True),
        sa.Column("finished_s", sa.Double(), nullable=True),
        sa.Column("n_rounds", sa.Integer(), nullable=False),
        sa.Column("n_drafted", sa.Integer(), nullable=False),
        sa.Column("n_accepted", sa.Integer(), nullable=False),
        sa.Column("token_ids", JSON, nullable=False),
        sa.Column("logprobs", JSON, nullable=False),
        sa.Column("origins", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=True),
        sa.Column("extraction", sa.String(length=20), nullable=True),
        sa.Column("extraction_version", sa.String(length=40), nullable=True),
        sa.Column("verdict", sa.String(length=20), nullable=True),
        sa.Column("verdict_detail", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("failing_assert", sa.Text(), nullable=True),
        sa.Column("got", sa.Text(), nullable=True),
        sa.Column("expected", sa.Text(), nullable=True),
        sa.Column("calls", sa.Integer(), nullable=True),
        sa.Column("cpu_s", sa.Double(), nullable=True),
        sa.Column("sandbox_wall_s", sa.Double(), nullable=True),
        sa.Column("isolation", sa.String(length=40), nullable=True),
        sa.Column("trust", sa.String(length=40), nullable=True),
        sa.Column("graded_at", UTC, nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.CheckConstraint(
            "finish_reason IN ('stop', 'length', 'deadline', 'cancelled', 'error')",
            name=op.f("ck_samples_finish_reason"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_samples_run_id_runs"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["run_task_id"], ["run_tasks.id"], name=op.f("fk_samples_run_task_id_run_tasks"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_samples")),
        sa.UniqueConstraint("run_task_id", "index", name=op.f("uq_samples_run_task_id_index")),
    )
    with op.batch_alter_table("samples", schema=None) as batch_op:
        batch_op.create_index("ix_samples_run_id_verdict", ["run_id", "verdict"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("samples", schema=None) as batch_op:
        batch_op.drop_index("ix_samples_run_id_verdict")

    op.drop_table("samples")
    with op.batch_alter_table("run_tasks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_run_tasks_task_pk"))
        batch_op.drop_index("ix_run_tasks_state_lease_until")

    op.drop_table("run_tasks")
    op.drop_table("run_curves")
    op.drop_table("tokens")
    op.drop_table("tasks")
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_runs_name"))
        batch_op.drop_index("ix_runs_kind_state")
        batch_op.drop_index(batch_op.f("ix_runs_dataset_id"))
        batch_op.drop_index(batch_op.f("ix_runs_created_at"))

    op.drop_table("runs")
    op.drop_table("dataset_checks")
    with op.batch_alter_table("workers", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_workers_last_seen_at"))

    op.drop_table("workers")
    op.drop_table("users")
    with op.batch_alter_table("datasets", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_datasets_sha256"))
        batch_op.drop_index(batch_op.f("ix_datasets_name"))

    op.drop_table("datasets")
