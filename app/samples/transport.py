"""Exported columns: each names the formats that contain it, and the formats are built from that.

To add a column to samples, declare it in app/samples/models.py, write a migration, and store it in the job that knows
its value.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, create_model
from sqlalchemy import Column, Table
from sqlalchemy.orm import DeclarativeBase, MappedColumn, mapped_column
from sqlalchemy.types import TypeDecorator

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class ColumnTransport(enum.Flag):
    """Where a column goes."""

    REST = enum.auto()  # documents of the API and of --json
    EXPORT = enum.auto()  # lines of `runs export`
    IMPORT = enum.auto()  # what `runs import` takes from such a line; our own sandbox finds out the rest
    ARCHIVE = enum.auto()  # `study export`
    RUN_FILE = enum.auto()  # `runs export --format run`


REST, EXPORT, IMPORT, ARCHIVE, RUN_FILE = ColumnTransport
FILES = ARCHIVE | RUN_FILE
"""Formats that become rows again: they have the names of the columns, and their values are checked."""


@dataclass(frozen=True, slots=True)
class ExportedColumn:
    """How a column leaves the database."""

    formats: ColumnTransport
    file_type: Any  # the type of its value in a file, with bounds that keep out damage
    alias: str | None  # its name outside of FILES, if that is another one
    description: str | None


def define_exported_column(
    formats: ColumnTransport,
    file_type: Any,
    *column: Any,
    alias: str | None = None,
    description: str | None = None,
    **options: Any,
) -> MappedColumn[Any]:
    """`mapped_column(*column, **options)` for a column that leaves the database."""
    return mapped_column(
        *column, **options, info={ExportedColumn: ExportedColumn(formats, file_type, alias, description)}
    )


def list_column_types(table: type[DeclarativeBase], form: ColumnTransport) -> dict[str, type]:
    """The fields of a format outside of FILES, each with the class of its values, which may be None too."""
    return {
        column.info[ExportedColumn].alias or column.key: _get_column_type(column)
        for column, _ in _iterate_columns(table, form)
    }


def list_file_types(table: type[DeclarativeBase], form: ColumnTransport) -> dict[str, Any]:
    """The columns that the format has, in the order of their declaration, each with the type of its value in a file."""
    return {column.key: sent.file_type for column, sent in _iterate_columns(table, form)}


def add_columns(table: type[DeclarativeBase], form: ColumnTransport) -> Callable[[type[M]], type[M]]:
    """Decorates a model, which gets the columns that the format has after its own fields.

    A field that the model declares itself replaces the column of this name.
    """

    def decorate(model: type[M]) -> type[M]:
        columns = {name: (kind, field) for name, kind, field in _iterate_fields(table, form)}
        own = {name: (field.annotation, field) for name, field in model.model_fields.items()}
        first = {name: field for name, field in own.items() if name not in columns}
        return create_model(
            model.__name__,
            __base__=model.__bases__,
            __module__=model.__module__,
            __doc__=model.__doc__,
            **first | columns | own,
        )

    return decorate


def _iterate_fields(table: type[DeclarativeBase], form: ColumnTransport) -> Iterator[tuple[str, Any, Any]]:
    """(name, type, declaration) of a model's field for each column that the format has."""
    for column, sent in _iterate_columns(table, form):
        name = column.key if form in FILES else sent.alias or column.key
        kind = sent.file_type if form in FILES else _get_column_type(column)
        yield name, kind | None if column.nullable else kind, Field(description=sent.description)


def _iterate_columns(
    table: type[DeclarativeBase], form: ColumnTransport
) -> Iterator[tuple[Column[Any], ExportedColumn]]:
    assert isinstance(table.__table__, Table)
    for column in table.__table__.columns:
        if ExportedColumn in column.info and form in column.info[ExportedColumn].formats:
            yield column, column.info[ExportedColumn]


def _get_column_type(column: Column[Any]) -> type:
    stored = column.type
    return (stored.impl_instance if isinstance(stored, TypeDecorator) else stored).python_type


MAX_COUNT = 2**31 - 1
MAX_SECONDS = 10**9
LEAST_WALL_S = 1e-6
MAX_LOGPROB = 10**6


def _reject_tiny(seconds: float) -> float:
    if 0 < seconds < LEAST_WALL_S:
        raise ValueError(f"give 0 or at least {LEAST_WALL_S:g} seconds")
    return seconds


Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
WallSeconds = Annotated[Seconds, AfterValidator(_reject_tiny)]
"""Seconds that something is divided by."""
LogProb = Annotated[float, Field(ge=-MAX_LOGPROB, le=MAX_LOGPROB, allow_inf_nan=False)]
VerifySeconds = Annotated[float, Field(ge=1e-9, le=MAX_SECONDS)]
Rate = Annotated[float, Field(ge=1, le=1e24)]
"""Bytes or operations per second."""
# Far from the limits of the databases, whatever the time zone.
Time = Annotated[
    AwareDatetime, Field(ge=dt.datetime(2000, 1, 1, tzinfo=dt.UTC), lt=dt.datetime(3000, 1, 1, tzinfo=dt.UTC))
]
