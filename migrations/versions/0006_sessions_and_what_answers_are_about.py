"""Sessions of browsers, so that signing out ends them; which run a stored answer tells of, so that both go together"""

import sqlalchemy as sa
from alembic import op

UTC = sa.DateTime(timezone=True)

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Cookies from before name no session: everybody signs in once more.
    op.create_table(
        "sessions",
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("expires_at", UTC, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sessions_user_id_users"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_user_id"), "sessions", ["user_id"])
    op.create_index(op.f("ix_sessions_expires_at"), "sessions", ["expires_at"])
    op.drop_column("users", "signed_out_at")
    with op.batch_alter_table("idempotency_keys", schema=None) as batch_op:
        batch_op.add_column(sa.Column("run_id", sa.Uuid(), nullable=True))
        batch_op.create_foreign_key(
            op.f("fk_idempotency_keys_run_id_runs"), "runs", ["run_id"], ["id"], ondelete="CASCADE"
        )
        batch_op.create_index(op.f("ix_idempotency_keys_run_id"), ["run_id"])


def downgrade() -> None:
    with op.batch_alter_table("idempotency_keys", schema=None) as batch_op:
        batch_op.drop_index(op.f("ix_idempotency_keys_run_id"))
        batch_op.drop_constraint(op.f("fk_idempotency_keys_run_id_runs"), type_="foreignkey")
        batch_op.drop_column("run_id")
    op.add_column("users", sa.Column("signed_out_at", UTC, nullable=True))
    op.execute("UPDATE users SET signed_out_at = CURRENT_TIMESTAMP")  # cookies from before must not come to life again
    op.drop_table("sessions")
