"""`Idempotency-Key` on POST: the first request is carried out; a repetition gets the answer to the first.

An answer with a 2xx status is kept for a day. A request that failed changed nothing, so its key is free again.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import uuid

from flask import Flask, Response, g, request
from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from app.context import Context
from app.db.types import utcnow
from app.errors import BadInput, Conflict
from app.http.idempotency_models import IdempotencyKey
from app.http.operations import EVENTS, JSON
from app.http.security import is_api
from app.http.web import context

HEADER = "Idempotency-Key"
LONGEST = 200
_ACCEPTED = re.compile(rf"[ -~]{{1,{LONGEST}}}")
KEEP = dt.timedelta(days=1)
ANSWERED_WITHIN = dt.timedelta(hours=1)  # a key is free again this long after its process died


def init(app: Flask) -> None:
    """Handles every POST of the API that has the header, before and after its view."""
    app.before_request(_before)
    app.after_request(_after)


def claim(ctx: Context, caller: str, key: str, request_sha256: str) -> IdempotencyKey | None:
    """The earlier request with that key and its answer; None if there is none, and the caller must carry it out.

    Raises BadInput if the key was used for another request, Conflict while the first one is still being answered.
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
        raise BadInput("this key was used for another request: give every request its own", HEADER)
    if known is None or known.status is None:
        raise Conflict("the request of this key is being answered: ask again in a moment")
    return known


def keep(ctx: Context, caller: str, key: str, answer: Response, run_id: uuid.UUID | None = None) -> None:
    """Stores the answer for a claimed key, or frees the key if the request failed. See `tells_of` for `run_id`."""
    ours = (IdempotencyKey.caller == caller, IdempotencyKey.key == key)
    with ctx.database.session() as session:
        if not 200 <= answer.status_code < 300:
            session.execute(delete(IdempotencyKey).where(*ours))
            return
        session.execute(
            update(IdempotencyKey)
            .where(*ours)
            .values(
                status=answer.status_code,
                content_type=answer.content_type,
                location=answer.headers.get("Location"),
                body=answer.get_data(),
                run_id=run_id,
                expires_at=utcnow() + KEEP,
            )
        )


def tells_of(run_id: uuid.UUID) -> None:
    """Links the answer of this request to a run: when the run is deleted, the stored answer is deleted with it."""
    g.idempotency_run = run_id


def _before() -> Response | None:
    key = request.headers.get(HEADER)
    if key is None or request.method != "POST" or not is_api(request.path):
        return None
    if not _ACCEPTED.fullmatch(key):
        raise BadInput(f"the key has {len(key)} characters: give 1 to {LONGEST}, printable ASCII only", HEADER)
    if request.accept_mimetypes.best_match([JSON, EVENTS]) == EVENTS:
        raise BadInput(f"a stream cannot be answered twice: send {HEADER} with Accept: {JSON}", HEADER)
    content = b"\n".join((request.full_path.encode(), (request.content_type or "").encode(), request.get_data()))
    known = claim(context(), g.caller.key, key, hashlib.sha256(content).hexdigest())
    if known is None:
        g.idempotency_key = key
        return None
    headers = {"Idempotency-Replayed": "true"} | ({"Location": known.location} if known.location else {})
    return Response(known.body, known.status, headers, content_type=known.content_type)


def _after(response: Response) -> Response:
    key = g.pop("idempotency_key", None)
    if key is not None:
        keep(context(), g.caller.key, key, response, g.get("idempotency_run"))
    return response
