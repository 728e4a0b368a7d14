"""Whether a run reuses the prefill of earlier prompts, and how many tokens of each prompt came from it"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("prefix_cache", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("run_tasks", sa.Column("cached_tokens", sa.Integer()))


def downgrade() -> None:
    op.drop_column("run_tasks", "cached_tokens")
    op.drop_column("runs", "prefix_cache")
