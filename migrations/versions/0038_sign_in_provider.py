"""Users of an OpenID Connect provider, found again by issuer and subject; tokens that expire."""

import sqlalchemy as sa
from alembic import op

SUBJECT = "uq_users_oidc_issuer_oidc_subject"

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("oidc_issuer", sa.String(length=500), nullable=True))
    op.add_column("users", sa.Column("oidc_subject", sa.String(length=255), nullable=True))
    op.create_index(SUBJECT, "users", ["oidc_issuer", "oidc_subject"], unique=True)
    op.add_column("tokens", sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Without them, nobody could tell these users from others and no token would expire: both are deleted."""
    op.execute("DELETE FROM tokens WHERE expires_at IS NOT NULL")
    op.execute("DELETE FROM users WHERE oidc_subject IS NOT NULL")
    op.drop_column("tokens", "expires_at")
    op.drop_index(SUBJECT, "users")
    op.drop_column("users", "oidc_subject")
    op.drop_column("users", "oidc_issuer")
