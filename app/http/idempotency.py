"""`Idempotency-Key` on POST: the first request is carried out; a repetition gets the answer to the first.

An answer with a 2xx status is kept for a day. A request that failed changed nothing, so its key is free again. The key
of a stream is free again as soon as the stream begins: only a complete answer can be repeated, and closing a stream
cancels its work.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import uuid
from typing import IO

import structlog
from flask import Request, Response, g, request
from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from app.context import Context
from app.db.database import error_summary
from app.db.types import utcnow
from app.errors import BadInputError, ConflictError
from app.http.idempotency_models import IdempotencyKey
from app.http.operations import EVENTS, JSON, MULTIPART
from app.http.security import is_api
from app.http.web import context

HEADER = "Idempotency-Key"
LONGEST = 200
_ACCEPTED = re.compile(rf"[ -~]{{1,{LONGEST}}}")
KEEP = dt.timedelta(days=1)
ANSWERED_WITHIN = dt.timedelta(hours=1)  # a key is free again this long after its process died
log = structlog.get_logger(__name__)


def claim(ctx: Context, caller: str, key: str, request_sha256: str) -> IdempotencyKey | None:
    """The earlier request with that key and its answer; None if there is none, and the caller must carry it out.

    Raises BadInputError if the key was used for another request, ConflictError while the first one is still being
    answered.
    """
    now = utcnow()
    row = IdempotencyKey(caller=caller, key=key, request_sha256=request_sha256, expires_at=now + ANSWERED_WITHIN)
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
    if known is None or known.status is None:
        raise ConflictError("the request of this key is being answered: ask again in a moment")
    return known


def link_response_to_run(run_id: uuid.UUID) -> None:
    """Links the response to this request to a run: when the run is deleted, the stored response is deleted with it."""
    g.idempotency_run = run_id


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
    if known is None:
        g.idempotency_key = key
        return None
    headers = {"Idempotency-Replayed": "true"} | ({"Location": known.location} if known.location else {})
    return Response(known.body, known.status, headers, content_type=known.content_type)


def store(response: Response) -> Response:
    """Stores the response for the key that this request claimed, if any.

    Frees the key if the request failed or the response is a stream.
    """
    if (key := g.pop("idempotency_key", None)) is None:
        return response
    ours = (IdempotencyKey.caller == g.caller.key, IdempotencyKey.key == key)
    stored = update(IdempotencyKey).values(
        status=response.status_code,
        content_type=response.content_type,
        location=response.headers.get("Location"),
        run_id=g.get("idempotency_run"),
        expires_at=utcnow() + KEEP,
    )
    is_kept = 200 <= response.status_code < 300 and not response.is_streamed
    change = stored.values(body=response.get_data()) if is_kept else delete(IdempotencyKey)
    try:
        with context().database.session() as session:
            session.execute(change.where(*ours))
    except SQLAlchemyError as error:
        # What the request did is stored, so its response stands. A repetition gets 409 until the claim expires.
        log.warning("the response was not stored for its key", error=error_summary(error))
    return response
