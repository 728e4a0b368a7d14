"""The first schema, with the number of the last one before it: a database at 0033 is up to date."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

UTC = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
WORDS = sa.Text().with_variant(postgresql.TSVECTOR(), "postgresql")

revision = "0033"
down_revision = None
branch_labels = None
depends_on = None

# FTS5 keeps no copy of the words and no positions. The tokenizer "ascii" splits at ASCII characters other than letters
# and digits, of which the words hold the underscore alone.
FTS5 = """
CREATE VIRTUAL TABLE task_words_index USING fts5(
    words, content='task_words', content_rowid='id', detail=none, columnsize=0, tokenize="ascii tokenchars '_'"
)
"""
ADD = "INSERT INTO task_words_index (rowid, words) SELECT new.id, new.words WHERE new.words IS NOT NULL;"
REMOVE = """
INSERT INTO task_words_index (task_words_index, rowid, words)
SELECT 'delete', old.id, old.words WHERE old.words IS NOT NULL;
"""
# One trigger for a change, because SQLite does not say in which order it runs two.
TRIGGERS = {"INSERT": ADD, "DELETE": REMOVE, "UPDATE OF words": f"{REMOVE} {ADD}"}


def upgrade() -> None:
    op.create_table(
        "archives",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_archives"),
    )
    op.create_table(
        "datasets",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column(
            "kind",
            sa.Enum("builtin", "imported", name="kind", native_enum=False, create_constraint=True, length=20),
            nullable=False,
        ),
        sa.Column("n_tasks", sa.Integer(), nullable=False),
        sa.Column("n_left_out", sa.Integer(), server_default="0", nullable=False),
        sa.Column("left_out", JSON, nullable=True),
        sa.Column("coverage", JSON, nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
        sa.UniqueConstraint("name", "sha256", name="uq_datasets_name_sha256"),
    )
    op.create_index("ix_datasets_name", "datasets", ["name"])
    op.create_index("ix_datasets_sha256", "datasets", ["sha256"])
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
        "published_heads",
        sa.Column("target", sa.String(length=500), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.Column("config", sa.LargeBinary(), nullable=False),
        sa.Column("weights", sa.LargeBinary(), nullable=False),
        sa.Column("published_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("target", name="pk_published_heads"),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column(
            "scope",
            sa.Enum("read", "submit", "admin", name="scope", native_enum=False, create_constraint=True, length=20),
            nullable=False,
        ),
        sa.Column("password_hash", sa.String(length=200), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=200), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(length=200), nullable=True),
        sa.Column("model", sa.String(length=500), nullable=True),
        sa.Column("loading", sa.String(length=500), nullable=True),
        sa.Column("node", sa.String(length=300), nullable=True),
        sa.Column("queues", JSON, nullable=True),
        sa.Column("crashes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("started_at", UTC, nullable=False),
        sa.Column("stopped_at", UTC, nullable=True),
        sa.Column("last_seen_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_workers"),
    )
    op.create_index("ix_workers_last_seen_at", "workers", ["last_seen_at"])
    op.create_index("ix_workers_node", "workers", ["node"])
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
    op.create_table(
        "dataset_checks",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("sandbox", sa.String(length=200), nullable=False),
        sa.Column("failed", JSON, nullable=False),
        sa.Column("checked_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_dataset_checks_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_dataset_checks"),
        sa.UniqueConstraint("dataset_id", "sandbox", name="uq_dataset_checks_dataset_id_sandbox"),
    )
    op.create_table(
        "runs",
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
        sa.Column("dataset_id", sa.Uuid(), nullable=True),
        sa.Column("target", sa.String(length=500), nullable=False),
        sa.Column("drafter", sa.String(length=500), nullable=False),
        sa.Column("draft_length", sa.String(length=40), nullable=False),
        sa.Column("acceptance", sa.String(length=20), nullable=False),
        sa.Column("dtype", sa.String(length=20), nullable=False),
        sa.Column("weights", sa.String(length=20), server_default="dense", nullable=False),
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
        sa.Column("throughput", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("prefix_cache", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("n_tasks", sa.Integer(), nullable=False),
        sa.Column("excluded", JSON, nullable=False),
        sa.Column("graded", sa.Boolean(), nullable=False),
        sa.Column("pinned_worker", sa.String(length=200), nullable=True),
        sa.Column("provenance", JSON, nullable=False),
        sa.Column("quiet", JSON, nullable=True),
        sa.Column("compare_plain", sa.Integer(), nullable=True),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column(
            "failure",
            sa.Enum(
                "request",
                "model",
                "dataset",
                "decoding",
                "grading",
                "worker_lost",
                name="failure",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=True,
        ),
        sa.Column("figures", JSON, nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("enqueued_at", UTC, nullable=True),
        sa.Column("started_at", UTC, nullable=True),
        sa.Column("finished_at", UTC, nullable=True),
        sa.Column("cancel_requested_at", UTC, nullable=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("starred", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("archived", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.CheckConstraint("budget_s > 0", name=op.f("ck_runs_budget_positive")),
        sa.CheckConstraint("n >= 1", name=op.f("ck_runs_n_positive")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="fk_runs_dataset_id_datasets"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_created_at", "runs", ["created_at"])
    op.create_index("ix_runs_dataset_id", "runs", ["dataset_id"])
    op.create_index("ix_runs_kind_state", "runs", ["kind", "state"])
    op.create_index("ix_runs_name", "runs", ["name"])
    op.create_index("ix_runs_state", "runs", ["state"])
    op.create_table(
        "sessions",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("expires_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_sessions_user_id_users", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])
    op.create_table(
        "studies",
        sa.Column("dataset_id", sa.Uuid(), nullable=False),
        sa.Column("budget_s", sa.Double(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("race", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("block_tasks", sa.Integer(), nullable=False),
        sa.Column("machine", JSON, nullable=False),
        sa.Column("checked_at", UTC, nullable=True),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("measured_elsewhere", sa.Text(), nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("starred", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("archived", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="fk_studies_dataset_id_datasets"),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
    )
    op.create_index("ix_studies_created_at", "studies", ["created_at"])
    op.create_index("ix_studies_dataset_id", "studies", ["dataset_id"])
    op.create_index("ix_studies_name", "studies", ["name"])
    op.create_table(
        "tokens",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("prefix", sa.String(length=20), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column(
            "scope",
            sa.Enum("read", "submit", "admin", name="scope", native_enum=False, create_constraint=True, length=20),
            nullable=False,
        ),
        sa.Column("user_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("last_used_at", UTC, nullable=True),
        sa.Column("revoked_at", UTC, nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_tokens_user_id_users", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("prefix", name="uq_tokens_prefix"),
    )
    op.create_index("ix_tokens_user_id", "tokens", ["user_id"])
    op.create_table(
        "calibrations",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("worker", sa.String(length=200), nullable=False),
        sa.Column("at", UTC, nullable=False),
        sa.Column("verify_s", sa.Double(), nullable=False),
        sa.Column("read_bytes_per_s", sa.Double(), nullable=False),
        sa.Column("flops_per_s", sa.Double(), nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_calibrations_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_calibrations"),
    )
    op.create_index("ix_calibrations_run_id_at", "calibrations", ["run_id", "at"])
    op.create_table(
        "completions",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("prompts_sha256", sa.String(length=64), nullable=False),
        sa.Column("n_min", sa.Integer(), nullable=True),
        sa.Column("prompt_logprobs", sa.Integer(), nullable=True),
        sa.Column("top_logprobs", sa.Integer(), server_default="0", nullable=False),
        sa.Column("after_id", sa.Uuid(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_completions_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_completions"),
    )
    op.create_index("ix_completions_after_id", "completions", ["after_id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("content_type", sa.String(length=100), nullable=True),
        sa.Column("location", sa.String(length=500), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("owner", sa.String(length=300), nullable=True),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("expires_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_idempotency_keys_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_idempotency_keys"),
        sa.UniqueConstraint("caller", "key", name="uq_idempotency_keys_caller_key"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])
    op.create_index("ix_idempotency_keys_run_id", "idempotency_keys", ["run_id"])
    op.create_table(
        "run_curves",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("n_tasks", sa.Integer(), nullable=False),
        sa.Column("tasks", sa.String(length=64), server_default="", nullable=False),
        sa.Column("budgets", JSON, nullable=False),
        sa.Column("pass_first", JSON, nullable=False),
        sa.Column("pass_all", JSON, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_curves_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_run_curves"),
    )
    op.create_table(
        "run_tags",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("tag", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_tags_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "tag", name="pk_run_tags"),
    )
    op.create_index("ix_run_tags_tag", "run_tags", ["tag"])
    op.create_table(
        "study_arms",
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("dropped_at", UTC, nullable=True),
        sa.Column("dropped_by", sa.Integer(), nullable=True),
        sa.Column("dropped_after", sa.Integer(), nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_study_arms_run_id_runs"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_study_arms_study_id_studies", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_study_arms"),
        sa.UniqueConstraint("run_id", name="uq_study_arms_run_id"),
        sa.UniqueConstraint("study_id", "name", name="uq_study_arms_study_id_name"),
        sa.UniqueConstraint("study_id", "position", name="uq_study_arms_study_id_position"),
    )
    op.create_index("ix_study_arms_study_id", "study_arms", ["study_id"])
    op.create_table(
        "study_tags",
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("tag", sa.String(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_study_tags_study_id_studies", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("study_id", "tag", name="pk_study_tags"),
    )
    op.create_index("ix_study_tags_tag", "study_tags", ["tag"])
    op.create_table(
        "tasks",
        sa.Column("dataset_id", sa.Uuid(), nullable=True),
        sa.Column("completion_id", sa.Uuid(), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.String(length=200), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("entry_point", sa.String(length=200), nullable=False),
        sa.Column("test", sa.Text(), nullable=False),
        sa.Column("canonical_solution", sa.Text(), nullable=False),
        sa.Column("suffix", sa.Text(), nullable=True),
        sa.Column("stop", JSON, nullable=False),
        sa.Column("messages", JSON, nullable=True),
        sa.Column("prompt_token_ids", JSON, nullable=True),
        sa.Column("program_prefix", sa.Text(), nullable=True),
        sa.Column("source", JSON, nullable=True),
        sa.Column("project_tests", JSON, nullable=True),
        sa.Column("module", JSON, nullable=True),
        sa.Column("language", sa.String(length=30), server_default="python", nullable=False),
        sa.Column("signature", JSON, nullable=True),
        sa.Column("cases", JSON, nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.CheckConstraint("(dataset_id IS NULL) <> (completion_id IS NULL)", name=op.f("ck_tasks_one_owner")),
        sa.ForeignKeyConstraint(
            ["completion_id"], ["completions.run_id"], name="fk_tasks_completion_id_completions", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_tasks_dataset_id_datasets", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sa.UniqueConstraint("completion_id", "position", name="uq_tasks_completion_id_position"),
        sa.UniqueConstraint("dataset_id", "position", name="uq_tasks_dataset_id_position"),
        sa.UniqueConstraint("dataset_id", "task_id", name="uq_tasks_dataset_id_task_id"),
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
        sa.Column("enqueued_at", UTC, nullable=True),
        sa.Column("queued_at", UTC, nullable=False),
        sa.Column("started_at", UTC, nullable=True),
        sa.Column("finished_at", UTC, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column(
            "failure",
            sa.Enum(
                "request",
                "model",
                "dataset",
                "decoding",
                "grading",
                "worker_lost",
                name="failure",
                native_enum=False,
                create_constraint=True,
                length=20,
            ),
            nullable=True,
        ),
        sa.Column("prompt_sent", sa.Text(), nullable=True),
        sa.Column("prompt_version", sa.String(length=40), nullable=True),
        sa.Column("n_prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("prompt_logprobs", JSON, nullable=True),
        sa.Column("queue_s", sa.Double(), nullable=True),
        sa.Column("prefill_s", sa.Double(), nullable=True),
        sa.Column("draft_s", sa.Double(), nullable=True),
        sa.Column("verify_s", sa.Double(), nullable=True),
        sa.Column("other_s", sa.Double(), nullable=True),
        sa.Column("wall_s", sa.Double(), nullable=True),
        sa.Column("sandbox_s", sa.Double(), nullable=True),
        sa.Column("n_rounds", sa.Integer(), nullable=True),
        sa.Column("n_verified", sa.Integer(), nullable=True),
        sa.Column("peak_memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("capacity_s", sa.Double(), nullable=True),
        sa.Column("others_cpu_s", sa.Double(), nullable=True),
        sa.Column("steal_s", sa.Double(), nullable=True),
        sa.Column("load_average", sa.Double(), nullable=True),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_tasks_run_id_runs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["task_pk"], ["tasks.id"], name="fk_run_tasks_task_pk_tasks"),
        sa.PrimaryKeyConstraint("id", name="pk_run_tasks"),
        sa.UniqueConstraint("run_id", "position", name="uq_run_tasks_run_id_position"),
        sa.UniqueConstraint("run_id", "task_pk", name="uq_run_tasks_run_id_task_pk"),
    )
    op.create_index("ix_run_tasks_finished_at", "run_tasks", ["finished_at"])
    op.create_index("ix_run_tasks_run_id_state", "run_tasks", ["run_id", "state"])
    op.create_index("ix_run_tasks_state_lease_until", "run_tasks", ["state", "lease_until"])
    op.create_index("ix_run_tasks_task_pk", "run_tasks", ["task_pk"])
    op.create_table(
        "samples",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("run_task_id", sa.Uuid(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("program", sa.Text(), nullable=True),
        sa.Column("extraction", sa.String(length=20), nullable=True),
        sa.Column("extraction_version", sa.String(length=40), nullable=True),
        sa.Column("finish_reason", sa.String(length=20), nullable=False),
        sa.Column("n_tokens", sa.Integer(), nullable=False),
        sa.Column("mean_logprob", sa.Double(), nullable=True),
        sa.Column("first_token_s", sa.Double(), nullable=True),
        sa.Column("finished_s", sa.Double(), nullable=True),
        sa.Column("n_rounds", sa.Integer(), nullable=False),
        sa.Column("n_drafted", sa.Integer(), nullable=False),
        sa.Column("n_accepted", sa.Integer(), nullable=False),
        sa.Column("token_ids", JSON, nullable=False),
        sa.Column("logprobs", JSON, nullable=False),
        sa.Column("origins", sa.Text(), nullable=False),
        sa.Column("ends", JSON, nullable=True),
        sa.Column("top_logprobs", JSON, nullable=True),
        sa.Column("eos_logprob", sa.Double(), nullable=True),
        sa.Column("verdict", sa.String(length=20), nullable=True),
        sa.Column("verdict_detail", sa.Text(), nullable=True),
        sa.Column("failing_assert", sa.Text(), nullable=True),
        sa.Column("got", sa.Text(), nullable=True),
        sa.Column("expected", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
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
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_samples_run_id_runs", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["run_task_id"], ["run_tasks.id"], name="fk_samples_run_task_id_run_tasks", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_samples"),
        sa.UniqueConstraint("run_task_id", "index", name="uq_samples_run_task_id_index"),
    )
    op.create_index(
        "ix_samples_measured",
        "samples",
        [
            "run_id",
            "verdict",
            "run_task_id",
            "index",
            "n_tokens",
            "mean_logprob",
            "finish_reason",
            "finished_s",
            "n_rounds",
            "n_accepted",
            "trust",
            "calls",
        ],
    )
    op.create_table(
        "task_words",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_task_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("words", WORDS, nullable=True),
        sa.ForeignKeyConstraint(
            ["run_task_id"], ["run_tasks.id"], name="fk_task_words_run_task_id_run_tasks", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_task_words"),
        sa.UniqueConstraint("run_task_id", name="uq_task_words_run_task_id"),
    )
    op.create_index("ix_task_words_run_id", "task_words", ["run_id"])
    op.create_index(
        "ix_task_words_unread",
        "task_words",
        ["id"],
        unique=False,
        postgresql_where=sa.text("words IS NULL"),
        sqlite_where=sa.text("words IS NULL"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("CREATE INDEX task_words_index ON task_words USING gin (words)")
        return
    op.execute(FTS5)
    for event, action in TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name_trigger(event)} AFTER {event} ON task_words BEGIN {action} END")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for event in TRIGGERS:
            op.execute(f"DROP TRIGGER {name_trigger(event)}")
        op.execute("DROP TABLE task_words_index")
    op.drop_table("task_words")
    op.drop_table("samples")
    op.drop_table("run_tasks")
    op.drop_table("tasks")
    op.drop_table("study_tags")
    op.drop_table("study_arms")
    op.drop_table("run_tags")
    op.drop_table("run_curves")
    op.drop_table("idempotency_keys")
    op.drop_table("completions")
    op.drop_table("calibrations")
    op.drop_table("tokens")
    op.drop_table("studies")
    op.drop_table("sessions")
    op.drop_table("runs")
    op.drop_table("dataset_checks")
    op.drop_table("dataset_check_jobs")
    op.drop_table("workers")
    op.drop_table("users")
    op.drop_table("published_heads")
    op.drop_table("load_tests")
    op.drop_table("datasets")
    op.drop_table("archives")


def name_trigger(event: str) -> str:
    return f"task_words_{event.split(maxsplit=1)[0].lower()}"
