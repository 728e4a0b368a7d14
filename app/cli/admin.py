"""`bassline db`, `bassline tokens` and `bassline users`."""

from __future__ import annotations

import click

from app import domains
from app.accounts import service
from app.accounts import users as people
from app.cli import common
from app.core import observability
from app.core.context import make_context
from app.core.db import migrate
from app.core.states import Scope
from app.core.terminal import echo

scope_option = click.option(
    "--scope",
    type=common.Choice([scope.value for scope in Scope]),
    default=Scope.SUBMIT.value,
    show_default=True,
    help="read: look; submit: also start, cancel, import; admin: also delete and manage tokens",
)
password_option = click.option(
    "--password", prompt=True, hide_input=True, confirmation_prompt=True, help="prompted for if not given"
)


@click.group()
def db() -> None:
    """Manage the database.

    Example:
        bassline db upgrade
    """


@db.command()
def upgrade() -> None:
    """Bring the schema to the newest version; safe to run twice, also at the same time.

    Example:
        BASSLINE_DATABASE_URL=postgresql+psycopg://bassline@db/bassline bassline db upgrade
    """
    assert domains.metadata.tables
    ctx = make_context()
    migrate.upgrade(ctx.database)
    done = f"the database is at schema {migrate.current(ctx.database)}"
    if observability.is_for_log_store():  # the service `migrate` of the stack
        observability.write_line(done)
    else:
        echo(done)


@click.group()
def tokens() -> None:
    """Make, list and revoke API tokens.

    Example:
        bassline tokens create laptop
    """


@tokens.command()
@click.argument("name")
@scope_option
def create(name: str, scope: str) -> None:
    """Make a token and print it; it cannot be shown again.

    Example:
        bassline tokens create laptop --scope read
    """
    echo(service.create_token(common.opened_context(), name, Scope(scope)))


@tokens.command("list")
@common.json_option
def list_(json_file: str | None) -> None:
    """All tokens, without their secrets.

    Example:
        bassline tokens list
    """
    ctx = common.opened_context()
    with ctx.database.read() as session:
        found = service.list_tokens(session)
    columns = ("name", "scope", "created_at", "last_used_at", "revoked_at")
    documents = [
        {"id": t.prefix, "user": t.user.name if t.user else None} | {name: getattr(t, name) for name in columns}
        for t in found
    ]
    common.write_json(json_file, documents)
    rows = [
        (
            t.prefix,
            t.name,
            t.scope,
            t.user.name if t.user else "",
            f"{t.created_at:%Y-%m-%d}",
            f"{t.last_used_at:%Y-%m-%d}" if t.last_used_at else "never",
            "revoked" if t.revoked_at else "valid",
        )
        for t in found
    ]
    common.print_list(json_file, ("id", "name", "scope", "user", "created", "last used", "state"), rows)


@tokens.command()
@click.argument("token_id", metavar="ID")
def revoke(token_id: str) -> None:
    """Revoke a token.

    Example:
        bassline tokens revoke 1f2e3d4c
    """
    service.revoke_token(common.opened_context(), token_id)
    echo(f"token {token_id} is revoked")


@click.group()
def users() -> None:
    """Make, list and remove the people who sign in.

    Example:
        bassline users create ada --scope admin
    """


@users.command("create")
@click.argument("name")
@scope_option
@password_option
def create_user(name: str, scope: str, password: str) -> None:
    """Make a user who signs in with NAME and a password.

    Example:
        bassline users create ada --scope admin
    """
    people.create_user(common.opened_context(), name, password, Scope(scope))
    echo(f"user {name} may {scope}")


@users.command("list")
@common.json_option
def list_users(json_file: str | None) -> None:
    """All users.

    Example:
        bassline users list
    """
    ctx = common.opened_context()
    with ctx.database.read() as session:
        found = people.list_users(session)
    common.write_json(json_file, [{"name": u.name, "scope": u.scope, "created_at": u.created_at} for u in found])
    rows = [(u.name, u.scope, f"{u.created_at:%Y-%m-%d}") for u in found]
    common.print_list(json_file, ("name", "scope", "created"), rows)


@users.command()
@click.argument("name")
@password_option
def password(name: str, password: str) -> None:
    """Change a user's password; every browser is signed out.

    Example:
        bassline users password ada
    """
    people.set_password(common.opened_context(), name, password)
    echo(f"the password of {name} is changed")


@users.command("delete")
@click.argument("name")
def delete_user(name: str) -> None:
    """Remove a user with sessions and tokens; runs stay.

    Example:
        bassline users delete ada
    """
    people.delete_user(common.opened_context(), name)
    echo(f"user {name} and their tokens are deleted")
