"""Brings a trained drafter to every worker: one machine publishes the head in the database, workers fetch it by hash.

The database is the one store that all machines of a stack share. A head has some tens of megabytes, and a target has
one, so it is small beside the samples of a few runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.context import Context
from app.language_models.models import PublishedHead
from decoding.models import trained_heads
from decoding.models.errors import ModelError
from decoding.models.trained_heads import CONFIG, WEIGHTS, HeadRecord


def publish(ctx: Context, target: str) -> HeadRecord:
    """Store this machine's head of a target in the database, in place of an earlier one; return its record.

    Raises ModelError if the target has no head here, or a damaged one.
    """
    record, files = trained_heads.export(target)
    head = PublishedHead(
        target=target,
        sha256=record.sha256,
        record=json.dumps(asdict(record)),
        config=files[CONFIG].decode(),
        weights=files[WEIGHTS],
    )
    with ctx.database.session() as session:
        session.merge(head)
    return record


def fetch(ctx: Context, target: str) -> None:
    """Install the published head of a target on this machine, unless its head has the same hash already.

    A worker calls it before it loads an engine with a head. Nothing happens where no head was published: then the
    machine's own one counts. Raises ModelError if what arrives has another hash than its record says.
    """
    with ctx.database.read() as session:
        sha256 = session.scalar(select(PublishedHead.sha256).where(PublishedHead.target == target))
        if sha256 is None or sha256 == _local_hash(target):
            return
        head = session.get_one(PublishedHead, target)
        files = {CONFIG: head.config.encode(), WEIGHTS: head.weights}
        record = HeadRecord(**json.loads(head.record))
    trained_heads.install(record, files)


def records(session: Session) -> Sequence[HeadRecord]:
    """Return the records of the published heads and of this machine's others, which may have any content."""
    published = [HeadRecord(**json.loads(record)) for record in session.scalars(select(PublishedHead.record))]
    targets = [record.target for record in published]
    return [*published, *(record for record in trained_heads.every() if record.target not in targets)]


def _local_hash(target: str) -> str | None:
    try:
        record = trained_heads.find(target)
    except ModelError:
        return None
    return None if record is None else record.sha256
