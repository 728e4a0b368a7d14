"""Completions have a table of their own and own their prompts, where each prompt was a dataset"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.schema import conv

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

OWN = "n_min, prompt_logprobs, top_logprobs, after_id"
CONTENT = (
    "position, task_id, prompt, entry_point, test, canonical_solution, suffix, stop, messages, prompt_token_ids, "
    "program_prefix, source"
)
PROMPTS = "SELECT id FROM datasets WHERE kind = 'prompt'"
UNIQUE, CHECK = conv("uq_tasks_completion_id_position"), conv("ck_tasks_one_owner")
FOREIGN_KEY = conv("fk_tasks_completion_id_completions")
KIND = conv("ck_datasets_kind")


def upgrade() -> None:
    """Statements over whole tables: the first completion of each prompt takes its tasks, the others get copies."""
    op.create_table(
        "completions",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("prompts_sha256", sa.String(64), nullable=False),
        sa.Column("n_min", sa.Integer()),
        sa.Column("prompt_logprobs", sa.Integer()),
        sa.Column("top_logprobs", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("after_id", sa.Uuid()),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], op.f("fk_completions_run_id_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_completions")),
    )
    op.create_index("ix_completions_after_id", "completions", ["after_id"])
    op.execute(
        f"INSERT INTO completions (run_id, prompts_sha256, {OWN}) SELECT runs.id, sha256, {OWN} "
        "FROM runs JOIN datasets ON datasets.id = runs.dataset_id WHERE runs.kind = 'complete'"
    )
    with op.batch_alter_table("tasks") as tasks:
        tasks.alter_column("dataset_id", existing_type=sa.Uuid(), nullable=True)
        tasks.add_column(sa.Column("completion_id", sa.Uuid()))
        tasks.create_foreign_key(FOREIGN_KEY, "completions", ["completion_id"], ["run_id"], ondelete="CASCADE")
        tasks.create_unique_constraint(UNIQUE, ["completion_id", "position"])
        tasks.create_check_constraint(CHECK, "(dataset_id IS NULL) <> (completion_id IS NULL)")
    op.execute(
        "UPDATE tasks SET completion_id = of_prompt.id, dataset_id = NULL FROM ("
        "SELECT id, dataset_id, row_number() OVER (PARTITION BY dataset_id ORDER BY id) AS number FROM runs "
        "WHERE kind = 'complete') AS of_prompt "
        f"WHERE number = 1 AND of_prompt.dataset_id = tasks.dataset_id AND tasks.dataset_id IN ({PROMPTS})"
    )
    # A copy has the id of the job that needs it.
    content = ", ".join(f"tasks.{name}" for name in CONTENT.split(", "))
    op.execute(
        f"INSERT INTO tasks (id, completion_id, {CONTENT}) SELECT run_tasks.id, run_tasks.run_id, {content} "
        "FROM run_tasks JOIN tasks ON tasks.id = run_tasks.task_pk WHERE tasks.completion_id <> run_tasks.run_id"
    )
    op.execute("UPDATE run_tasks SET task_pk = id WHERE id IN (SELECT id FROM tasks WHERE completion_id IS NOT NULL)")
    op.drop_index("ix_runs_after_id", "runs")
    with op.batch_alter_table("runs") as runs:
        runs.alter_column("dataset_id", existing_type=sa.Uuid(), nullable=True)
        for column in OWN.split(", "):
            runs.drop_column(column)
    op.execute("UPDATE runs SET dataset_id = NULL WHERE kind = 'complete'")
    for table in ("tasks", "dataset_checks"):  # SQLite has its foreign keys off here
        op.execute(f"DELETE FROM {table} WHERE dataset_id IN ({PROMPTS})")
    op.execute("DELETE FROM datasets WHERE kind = 'prompt'")
    _allow_kinds("'builtin', 'imported'")


def downgrade() -> None:
    """The first completion of each prompt gives its id and its tasks to the dataset, which all of that prompt share."""
    _allow_kinds("'builtin', 'imported', 'prompt'")
    for column in ("n_min", "prompt_logprobs"):
        op.add_column("runs", sa.Column(column, sa.Integer()))
    op.add_column("runs", sa.Column("top_logprobs", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("after_id", sa.Uuid()))
    op.create_index("ix_runs_after_id", "runs", ["after_id"])
    op.execute(
        "INSERT INTO datasets (id, name, sha256, kind, n_tasks, n_left_out, created_at) "
        "SELECT runs.id, 'prompt', prompts_sha256, 'prompt', n_tasks, 0, created_at FROM runs JOIN ("
        "SELECT run_id, prompts_sha256, row_number() OVER (PARTITION BY prompts_sha256 ORDER BY run_id) AS number "
        "FROM completions) AS of_prompt ON of_prompt.run_id = runs.id WHERE number = 1"
    )
    own = ", ".join(f"{name} = completions.{name}" for name in OWN.split(", "))
    op.execute(
        f"UPDATE runs SET dataset_id = datasets.id, {own} FROM completions JOIN datasets "
        "ON datasets.sha256 = completions.prompts_sha256 AND datasets.kind = 'prompt' "
        "WHERE completions.run_id = runs.id"
    )
    op.execute(
        "UPDATE run_tasks SET task_pk = kept.id FROM runs JOIN tasks AS kept ON kept.completion_id = runs.dataset_id "
        "WHERE runs.id = run_tasks.run_id AND kept.position = run_tasks.position AND kept.id <> run_tasks.task_pk"
    )
    op.execute(f"UPDATE tasks SET dataset_id = completion_id, completion_id = NULL WHERE completion_id IN ({PROMPTS})")
    op.execute("DELETE FROM tasks WHERE completion_id IS NOT NULL")
    with op.batch_alter_table("tasks") as tasks:
        tasks.drop_constraint(CHECK, type_="check")
        tasks.drop_constraint(UNIQUE, type_="unique")
        tasks.drop_constraint(FOREIGN_KEY, type_="foreignkey")
        tasks.drop_column("completion_id")
        tasks.alter_column("dataset_id", existing_type=sa.Uuid(), nullable=False)
    with op.batch_alter_table("runs") as runs:
        runs.alter_column("dataset_id", existing_type=sa.Uuid(), nullable=False)
    op.drop_table("completions")


def _allow_kinds(kinds: str) -> None:
    with op.batch_alter_table("datasets") as datasets:
        datasets.drop_constraint(KIND, type_="check")
        datasets.create_check_constraint(KIND, f"kind IN ({kinds})")
