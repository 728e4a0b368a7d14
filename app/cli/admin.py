"""`bassline db`, `bassline tokens` and `bassline users`."""

from __future__ import annotations

from pathlib import Path

import click

from app import domains
from app.accounts import service
from app.accounts import users as people
from app.cli import common
from app.core import observability
from app.core.context import Context, make_context
from app.core.db import migrate
from app.core.db.backup import restore_backup, save_backup
from app.core.states import Scope
from app.core.terminal import echo
from app.jobs.database_lock import DatabaseLock

scope_option = click.option(
    "--scope",
    type=common.SuggestingChoice([scope.value for scope in Scope]),
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
    done = f"the database is at schema {migrate.get_current_revision(ctx.database)}"
    if observability.must_write_json_lines():  # the service `migrate` of the stack
        observability.write_line(done)
    else:
        echo(done)


@db.command()
@click.argument("file", type=click.Path(path_type=Path))
def backup(file: Path) -> None:
    """Save the whole SQLite database to a new FILE, while the service runs.

    FILE holds prompts, outputs and hashes of passwords: keep it as safe as the database. For PostgreSQL use pg_dump.

    Example:
        bassline db backup /backups/bassline-2026-11-27
    """
    save_backup(make_context().database, file)
    echo(f"saved the database to {file}")


@db.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="delete what the database holds now")
def restore(file: Path, replace: bool) -> None:
    """Replace the SQLite database by the backup in FILE, whole or not at all. Stop the service first.

    Example:
        bassline db restore /backups/bassline-2026-11-27 --replace
    """
    database = make_context().database
    lock = DatabaseLock(database.file, "db restore")
    lock.acquire()
    try:
        schema = restore_backup(database, file, replace=replace)
    finally:
        lock.release()
    next_step = "" if schema == migrate.get_newest_revision() else "; run `bassline db upgrade` next"
    echo(f"restored the database from {file} (schema {schema}){next_step}")


@click.group()
def tokens() -> None:
    """Make, list and revoke API tokens.

    Example:
        bassline tokens create laptop
    """


@tokens.command()
@click.argument("name")
@scope_option
@click.option("--expires", default="never", show_default=True, help="lifetime in days or hours, such as 90d or 12h")
def create(name: str, scope: str, expires: str) -> None:
    """Make a token and print it; it cannot be shown again.

    Example:
        bassline tokens create laptop --scope read --expires 90d
    """
    lifetime = service.parse_lifetime(expires)
    echo(service.create_token(common.open_context(), name, Scope(scope), lifetime=lifetime))


@tokens.command("list")
@common.json_option
def list_(json_file: str | None) -> None:
    """All tokens, without their secrets.

    Example:
        bassline tokens list
    """
    ctx = common.open_context()
    with ctx.database.read() as session:
        found = service.list_tokens(session)
    columns = ("name", "scope", "created_at", "last_used_at", "expires_at", "revoked_at")
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
            f"{t.expires_at:%Y-%m-%d}" if t.expires_at else "never",
            t.state,
        )
        for t in found
    ]
    common.print_list(json_file, ("id", "name", "scope", "user", "created", "last used", "expires", "state"), rows)


def _revoke(ctx: Context, token_id: str) -> str:
    service.revoke_token(ctx, token_id)
    return f"token {token_id} is revoked"


common.add_row_command(tokens, "revoke", "Revoke a token.", "1f2e3d4c", _revoke)


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
    people.create_user(common.open_context(), name, password, Scope(scope))
    echo(f"user {name} may {scope}")


@users.command("list")
@common.json_option
def list_users(json_file: str | None) -> None:
    """All users.

    Example:
        bassline users list
    """
    ctx = common.open_context()
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
    people.set_password(common.open_context(), name, password)
    echo(f"the password of {name} is changed")


@users.command("scope")
@click.argument("name")
@click.argument("scope", type=common.SuggestingChoice([scope.value for scope in Scope]))
def change_scope(name: str, scope: str) -> None:
    """Change what a user and their tokens may do, at once.

    Example:
        bassline users scope ada@example.com admin
    """
    people.set_scope(common.open_context(), name, Scope(scope))
    echo(f"user {name} may {scope}")


def _delete_user(ctx: Context, name: str) -> str:
    people.delete_user(ctx, name)
    return f"user {name} and their tokens are deleted"


common.add_row_command(
    users, "delete", "Remove a user with sessions and tokens; runs stay.", "ada", _delete_user, "NAME"
)
