"""`bassline db` and `bassline tokens`."""

from __future__ import annotations

import click
from rich.table import Table

from app import migrate, tables
from app.accounts import service
from app.commands import common
from app.context import make_context


@click.group()
def db() -> None:
    """Look after the database.

    \b
    Example:
        bassline db upgrade
    """


@db.command()
def upgrade() -> None:
    """Bring the schema to the newest version; safe to run twice, also at the same time.

    \b
    Example:
        BASSLINE_DATABASE_URL=postgresql+psycopg://bassline@db/bassline bassline db upgrade
    """
    assert tables.metadata.tables
    ctx = make_context()
    migrate.upgrade(ctx.database)
    click.echo(f"the database is at schema {migrate.current(ctx.database)}")


@click.group()
def tokens() -> None:
    """Make, list and revoke API tokens.

    \b
    Example:
        bassline tokens create laptop
    """


@tokens.command()
@click.argument("name")
def create(name: str) -> None:
    """Make a token and print it; it cannot be shown again.

    \b
    Example:
        bassline tokens create laptop
    """
    click.echo(service.create_token(common.opened_context(), name))


@tokens.command("list")
@common.json_option
def list_(json_file: str | None) -> None:
    """All tokens, without their secrets.

    \b
    Example:
        bassline tokens list
    """
    ctx = common.opened_context()
    with ctx.database.read() as session:
        found = service.list_tokens(session)
    common.write_json(
        json_file,
        [
            {
                "id": t.prefix,
                "name": t.name,
                "created_at": t.created_at,
                "last_used_at": t.last_used_at,
                "revoked_at": t.revoked_at,
            }
            for t in found
        ],
    )
    table = Table("id", "name", "created", "last used", "state", box=None, pad_edge=False)
    for token in found:
        table.add_row(
            token.prefix,
            token.name,
            f"{token.created_at:%Y-%m-%d}",
            f"{token.last_used_at:%Y-%m-%d}" if token.last_used_at else "never",
            "revoked" if token.revoked_at else "valid",
        )
    common.result_console(json_file).print(table)


@tokens.command()
@click.argument("token_id", metavar="ID")
def revoke(token_id: str) -> None:
    """Make a token useless.

    \b
    Example:
        bassline tokens revoke 1f2e3d4c
    """
    service.revoke_token(common.opened_context(), token_id)
    click.echo(f"token {token_id} is revoked")
