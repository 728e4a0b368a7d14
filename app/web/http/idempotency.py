"""`Idempotency-Key` on POST: the first request is carried out; a repetition gets the answer to the first.

An answer with a 2xx status is kept for a day. A request that failed changed nothing, so its key is free again. The key
of a stream is free again as soon as the stream begins: only a complete answer can be repeated, and closing a stream
cancels its work.

A process may be killed while it answers. The run that a request stores is linked to its key in the same transaction,
and a key whose process is gone is free: the repetition answers for the linked run, or is carried out if there is none.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import uuid
from typing import IO, Any

import structlog
from flask import Request, Response, g, has_request_context, request
from sqlalchemy import ColumnElement, Connection, delete, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from app.core.context import Context
from app.core.db.database import error_summary, updated_any
from app.core.db.types import utcnow
from app.core.errors import BadInputError, ConflictError
from app.core.settings import MAX_BUDGET_S
from app.web.http import claim_owners
from app.web.http.idempotency_models import IdempotencyKey
from app.web.http.operations import EVENTS, JSON, MULTIPART
from app.web.http.security import is_api
from app.web.http.web import context

HEADER = "Idempotency-Key"
LONGEST = 200
_ACCEPTED = re.compile(rf"[ -~]{{1,{LONGEST}}}")
KEEP = dt.timedelta(days=1)
# A key of another host is free again after this time, which is longer than any request takes.
ANSWERED_WITHIN = dt.timedelta(seconds=MAX_BUDGET_S + 300)
log = structlog.get_logger(__name__)


def claim(ctx: Context, caller: str, key: str, request_sha256: str) -> IdempotencyKey | None:
    """The earlier request with that key; None if there is none. The caller must carry it out if it has no status.

    Raises BadInputError if the key was used for another request, ConflictError while the first one is still being
    answered.
    """
    now = utcnow()
    claimed = {"owner": claim_owners.name_this_process(), "expires_at": now + ANSWERED_WITHIN}
    row = IdempotencyKey(caller=caller, key=key, request_sha256=request_sha256, **claimed)
    try:
        with ctx.database.session() as session:
            session.execute(delete(IdempotencyKey).where(IdempotencyKey.expires_at < now))
            session.add(row)
        return None
    except IntegrityError:
        with ctx.database.read() as session:
            known = session.scalar(
                select(IdempotencyKey).where(IdempotencyKey.caller == caller, IdempotencyKey.key == key)
            )
    if known is not None and known.request_sha256 != request_sha256:
        raise BadInputError("this key was used for another request: give every request its own", HEADER)
    if known is not None and (known.status is not None or _take_over(ctx, known, claimed)):
        return known
    raise ConflictError("the request of this key is being answered: ask again in a moment")


def _take_over(ctx: Context, known: IdempotencyKey, claimed: dict[str, Any]) -> bool:
    """Claims the key of a process that is gone. False if it is not gone, or another request was faster."""
    if not claim_owners.is_gone(known.owner):
        return False
    is_unchanged = (IdempotencyKey.id == known.id, IdempotencyKey.owner.is_not_distinct_from(known.owner))
    with ctx.database.session() as session:
        return updated_any(session, update(IdempotencyKey).where(*is_unchanged).values(claimed))


def link_stored_run(_mapper: object, connection: Connection, run: Any) -> None:
    """Links the key that this request claimed to the first run that it stores, in the same transaction."""
    if has_request_context() and (key := g.get("idempotency_key")) is not None:
        unlinked = IdempotencyKey.run_id.is_(None)
        connection.execute(update(IdempotencyKey).where(*_ours(key), unlinked).values(run_id=run.id))


def earlier_run() -> uuid.UUID | None:
    """The run that this request stored before its process was killed, which the view must not store again."""
    found: uuid.UUID | None = g.get("idempotency_earlier_run")
    return found


def request_digest(asked: Request) -> str:
    """The sha256 of what a request means: equal for a repetition, different for any other request.

    A multipart body counts as its fields and files, since a repetition has another boundary; any other body byte for
    byte. The wanted type of the answer counts, because a stream is another answer.
    """
    body: object
    if asked.mimetype == MULTIPART:
        files = [
            (name, file.filename, _digest_file(file.stream))
            for name, parts in sorted(asked.files.lists())
            for file in parts
        ]
        body = [sorted(asked.form.lists()), files]
    else:
        body = hashlib.sha256(asked.get_data()).hexdigest()
    wanted = asked.accept_mimetypes.best_match([JSON, EVENTS])
    return hashlib.sha256(json.dumps([asked.full_path, asked.mimetype, wanted, body]).encode()).hexdigest()


def _digest_file(file: IO[bytes]) -> str:
    """The sha256 of an uploaded file, which is then at its start again for the view."""
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    file.seek(0)
    return digest


def replay_or_claim() -> Response | None:
    """The stored response to an earlier POST with this key; None if the view must answer. Raises as `claim` does."""
    key = request.headers.get(HEADER)
    if key is None or request.method != "POST" or not is_api(request.path):
        return None
    if not _ACCEPTED.fullmatch(key):
        raise BadInputError(f"the key has {len(key)} characters: give 1 to {LONGEST}, printable ASCII only", HEADER)
    known = claim(context(), g.caller.key, key, request_digest(request))
    if known is None or known.status is None:
        g.idempotency_key = key
        g.idempotency_earlier_run = known.run_id if known else None
        return None
    headers = {"Idempotency-Replayed": "true"} | ({"Location": known.location} if known.location else {})
    return Response(known.body, known.status, headers, content_type=known.content_type)


def store(response: Response) -> Response:
    """Stores the response for the key that this request claimed, if any.

    Frees the key if the request failed or the response is a stream.
    """
    if (key := g.pop("idempotency_key", None)) is None:
        return response
    stored = update(IdempotencyKey).values(
        status=response.status_code,
        content_type=response.content_type,
        location=response.headers.get("Location"),
        expires_at=utcnow() + KEEP,
    )
    is_kept = 200 <= response.status_code < 300 and not response.is_streamed
    change = stored.values(body=response.get_data()) if is_kept else delete(IdempotencyKey)
    try:
        with context().database.session() as session:
            session.execute(change.where(*_ours(key)))
    except SQLAlchemyError as error:
        # What the request did is stored, so its response stands. A repetition gets 409 until the claim expires.
        log.warning("the response was not stored for its key", error=error_summary(error))
    return response


def _ours(key: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return IdempotencyKey.caller == g.caller.key, IdempotencyKey.key == key
