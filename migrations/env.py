"""Alembic's entry: runs on the connection that app/core/db/migrate.py hands over."""

from alembic import context

from app.domains import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
    transaction_per_migration=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
