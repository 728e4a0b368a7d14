"""Trained drafters: one machine publishes a head in the database, which all machines share; their workers fetch it."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from dataclasses import asdict, replace
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError
from sqlalchemy import delete as delete_rows
from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from app.core.context import Context
from app.core.db.database import execute_change
from app.core.db.storable import find_unstorable_reason
from app.core.errors import BadInputError, ConflictError, NotFoundError
from app.language_models.models import LONGEST_TARGET, PublishedHead
from app.web.http.schemas import ResponseModel
from decoding.models import registry, trained_heads
from decoding.models.cache_folders import CONFIG, WEIGHTS
from decoding.models.errors import ModelError, UnknownModelError
from decoding.models.trained_heads import HeadRecord

# A file name that is not UTF-8 reaches the record with lone surrogates, which no answer can carry.
Line = Annotated[str, AfterValidator(lambda text: text.encode(errors="replace").decode())]
# The bounds keep out numbers that no page can write, such as seconds past what a float holds.
Count = Annotated[int, Field(ge=0, lt=2**63)]


class DrafterDocument(ResponseModel):
    """A trained drafter: a small network that proposes tokens for one target model."""

    slug: str = Field(description="its name in addresses")
    target: Line = Field(description="the model it drafts for, as in a run")
    target_sha256: Line = Field(description="of the target's files; it fits no others")
    sha256: Line = Field(description="of its own weights")
    source: Line = Field(description="`trained`, or the reference it was imported from")
    created_at: dt.datetime
    n_parameters: Count
    n_bytes: Count
    n_drafted: Count = Field(description="how many different tokens it can propose")
    taps: list[Count] = Field(description="the target's layers whose inputs it reads")
    hours: float = Field(ge=0, le=1e6, description="time of the training; 0 for an imported one")
    match: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        description="per draft position, the share of held-out positions where its top token matched the target's"
    )


def list_drafters(session: Session) -> list[DrafterDocument]:
    """The published drafters and the others of this machine, by the names of their targets.

    Records are files, and damaged ones are left out.
    """
    parsed = (_parse_record(text) for text in session.scalars(select(PublishedHead.record)))
    published = [record for record in parsed if record is not None]
    targets = [record.target for record in published]
    found = []
    for record in (*published, *(record for record in trained_heads.list_heads() if record.target not in targets)):
        try:
            drafter = DrafterDocument.model_validate({**asdict(record), "slug": ""})
        except ValidationError:
            continue
        found.append(drafter.model_copy(update={"slug": _slugify_target(drafter.target)}))
    return sorted(found, key=lambda drafter: drafter.target)


def delete_drafter(ctx: Context, slug: str) -> None:
    """Deletes the drafter of this name as `delete_head` does. Raises NotFoundError and ConflictError."""
    with ctx.database.read() as session:
        targets = {drafter.slug: drafter.target for drafter in list_drafters(session)}
    if slug not in targets:
        raise NotFoundError(f"no trained drafter has the name {slug[:200]!r}: /models and /api/v1/drafters list all")
    delete_head(ctx, targets[slug])


def _slugify_target(target: str) -> str:
    try:
        return registry.resolve(target).slug
    except UnknownModelError:  # its folder or file has gone, or was named relative to another folder
        return f"drafter-{hashlib.sha256(target.encode()).hexdigest()[:10]}"


def publish_head(ctx: Context, target: str) -> HeadRecord:
    """Store this machine's head of a target in the database, in place of an earlier one; return its record.

    Raises ModelError if the target has no head here, or a damaged one, and BadInputError for a name of a target that
    the database cannot store.
    """
    if len(target) > LONGEST_TARGET or find_unstorable_reason(target):
        raise BadInputError(
            f"target is a name that the database cannot store: give one of at most {LONGEST_TARGET} characters",
            "target",
        )
    record, files = trained_heads.export(target)
    record = replace(record, target=target)  # it may have been trained under another name of the same model
    head = PublishedHead(
        target=target,
        sha256=record.sha256,
        record=trained_heads.to_json(record),
        config=files[CONFIG],
        weights=files[WEIGHTS],
    )
    with ctx.database.session() as session:
        session.merge(head)
    return record


def delete_head(ctx: Context, target: str) -> None:
    """Delete the head of a target from the database and from this machine. Raises NotFoundError, and ConflictError
    where its files cannot be removed.

    Runs that drafted with it keep their results; a run that has yet to load it fails with the reason.
    """
    with ctx.database.session() as session:
        was_published = execute_change(session, delete_rows(PublishedHead).where(PublishedHead.target == target))
    try:
        was_here = trained_heads.remove(target)
    except UnknownModelError:  # its folder or file has gone
        was_here = False
    except ModelError as error:
        raise ConflictError(str(error)) from None
    if not (was_published or was_here):
        raise NotFoundError(f"{target} has no trained drafter: `bassline drafter list` shows all")


def fetch_head(ctx: Context, target: str) -> None:
    """Install the published head of a target on this machine, unless it already has this one or a newer one.

    A worker calls it before it loads an engine with a head. Nothing happens where no head was published. Raises
    ModelError if what arrives has another hash than its record says, or a record that cannot be read.
    """
    local = None
    with contextlib.suppress(ModelError):
        local = trained_heads.find(target)
    with ctx.database.read() as session:
        sha256 = session.scalar(select(PublishedHead.sha256).where(PublishedHead.target == target))
        if sha256 is None or (local is not None and local.sha256 == sha256):
            return
        # One query, since another head may take its place between two.
        head = session.get_one(PublishedHead, target, options=[undefer(PublishedHead.weights)])
        files = {CONFIG: head.config, WEIGHTS: head.weights}
        record = _parse_record(head.record)
    if record is None:
        raise ModelError(f"the published drafter of {target} has a damaged record: train or import it again.")
    if local is None or str(local.created_at) <= str(record.created_at):
        trained_heads.install(record, files)


def _parse_record(text: str) -> HeadRecord | None:
    """A published record; None for one that another version wrote and this one cannot read."""
    try:
        return trained_heads.from_json(text)
    except (ValueError, TypeError, RecursionError):
        return None
