"""Prompts as messages or token ids, and the log-probabilities of prompts and of the likeliest tokens"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("messages", JSON))
    op.add_column("tasks", sa.Column("prompt_token_ids", JSON))
    op.add_column("runs", sa.Column("prompt_logprobs", sa.Integer()))
    op.add_column("runs", sa.Column("top_logprobs", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("run_tasks", sa.Column("prompt_logprobs", JSON))
    op.add_column("samples", sa.Column("top_logprobs", JSON))
    op.add_column("samples", sa.Column("eos_logprob", sa.Double()))


def downgrade() -> None:
    op.drop_column("samples", "eos_logprob")
    op.drop_column("samples", "top_logprobs")
    op.drop_column("run_tasks", "prompt_logprobs")
    op.drop_column("runs", "top_logprobs")
    op.drop_column("runs", "prompt_logprobs")
    op.drop_column("tasks", "prompt_token_ids")
    op.drop_column("tasks", "messages")
