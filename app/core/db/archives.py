"""Project archives: the files that tasks need to be judged, stored once, by the sha256 of what is in them.

They are in the database, because a worker on another machine shares nothing else with the one that made the dataset.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from sqlalchemy import LargeBinary, String, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, mapped_column

from app.core.db.database import Database
from app.core.db.types import Base


class ProjectArchive(Base):
    """The files of a project, or of the packages that its tests need (evaluation/project_tests/archive.py)."""

    __tablename__ = "archives"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)


def store_project_archives(database: Database, archives: Mapping[str, bytes]) -> None:
    """Stores archives, given by their sha256; those that are there stay."""
    for sha256, content in archives.items():
        with contextlib.suppress(IntegrityError), database.session() as session:  # it may be there already
            session.add(ProjectArchive(sha256=sha256, content=content))


def read_project_archive(database: Database, sha256: str) -> bytes | None:
    """The content of an archive, None where it is not stored."""
    with database.read() as session:
        return session.scalar(select(ProjectArchive.content).where(ProjectArchive.sha256 == sha256))
