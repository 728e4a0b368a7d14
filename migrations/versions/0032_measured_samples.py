"""An index with all that figures read of samples; imports without finish times lose the shares that they never had"""

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

COLUMNS = [
    "run_id", "verdict", "run_task_id", "index", "n_tokens", "mean_logprob", "finish_reason", "finished_s", "n_rounds",
    "n_accepted", "trust", "calls",
]  # fmt: skip
UNTIMED = (
    "SELECT id FROM runs WHERE kind = 'imported' AND EXISTS (SELECT 1 FROM samples WHERE samples.run_id = runs.id "
    "AND samples.finished_s IS NULL AND samples.finish_reason IN ('stop', 'length'))"
)


def upgrade() -> None:
    op.drop_index("ix_samples_run_id_verdict", "samples")
    op.create_index("ix_samples_measured", "samples", COLUMNS)
    # A run without stored figures shows those of now, and the next start of the service records them.
    op.execute(f"DELETE FROM run_curves WHERE run_id IN ({UNTIMED})")
    op.execute(f"UPDATE runs SET figures = NULL WHERE id IN ({UNTIMED})")


def downgrade() -> None:
    op.drop_index("ix_samples_measured", "samples")
    op.create_index("ix_samples_run_id_verdict", "samples", ["run_id", "verdict"])
