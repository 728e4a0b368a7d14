"""Archives are stored once, by what is in them, and read by every process that has the database."""

from __future__ import annotations

from app.core.context import Context
from app.core.db.archives import read_project_archive, store_project_archives


def test_an_archive_comes_back_and_the_first_of_a_hash_stays(ctx: Context) -> None:
    store_project_archives(ctx.database, {"a" * 64: b"one", "b" * 64: b"two"})
    store_project_archives(ctx.database, {"a" * 64: b"three"})

    assert read_project_archive(ctx.database, "a" * 64) == b"one"
    assert read_project_archive(ctx.database, "b" * 64) == b"two"
    assert read_project_archive(ctx.database, "c" * 64) is None
