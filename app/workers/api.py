"""REST of workers."""

from __future__ import annotations

import datetime as dt

from flask import Blueprint
from pydantic import Field

from app.core.db.clock import read_database_time
from app.web.http.operations import declare_operation
from app.web.http.paging import PageQuery, split_list
from app.web.http.request_context import get_session
from app.web.http.schemas import ResponseModel
from app.workers import service

bp = Blueprint("workers_api", __name__, url_prefix="/api/v1")


class WorkerDocument(ResponseModel):
    """A worker process as it last reported itself."""

    name: str
    host: str
    pid: int
    alive: bool = Field(description="reported itself within a minute, and not stopped")
    device: str | None
    model: str | None = Field(description="the targets it holds in memory, the last used first")
    loading: str | None = Field(description="the target it is loading")
    node: str | None = Field(description="the name it keeps over restarts")
    queues: list[str] | None = Field(description="that it consumes; null: every queue")
    crashes: int = Field(description="processes of its node that died in a row right after their start, before it")
    started_at: dt.datetime
    last_seen_at: dt.datetime
    stopped_at: dt.datetime | None = Field(description="when it was asked to end; it may still finish a task")


class WorkerPage(ResponseModel):
    """Workers heard of within a day, the latest first."""

    workers: list[WorkerDocument]
    next: str | None


@bp.get("/workers")
@declare_operation({200: WorkerPage})
def index(query: PageQuery) -> WorkerPage:
    """The processes that decode and judge, as they last reported themselves."""
    page, following = split_list(service.list_workers(get_session()), query, lambda worker: worker.name)
    now = read_database_time(get_session())
    documents = [WorkerDocument.from_row(worker, alive=service.is_alive(worker, now)) for worker in page]
    return WorkerPage(workers=documents, next=following)
