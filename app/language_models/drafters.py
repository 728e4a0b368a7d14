"""The trained drafters with validated records, which are files and may have been edited."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from sqlalchemy.orm import Session

from app.core.errors import NotFoundError
from app.language_models import heads
from app.web.http.schemas import ResponseModel
from decoding.models import registry
from decoding.models.errors import UnknownModelError


def _replace_non_finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# A file name that is not UTF-8 reaches the record with lone surrogates, which no answer can carry.
Line = Annotated[str, AfterValidator(lambda text: text.encode(errors="replace").decode())]
# The bounds keep out numbers that no page can write, such as seconds past what a float holds.
Count = Annotated[int, Field(ge=0, lt=2**63)]
Figure = Annotated[Annotated[float, Field(ge=-1e12, le=1e12)] | None, BeforeValidator(_replace_non_finite)]
Share = Annotated[Annotated[float, Field(ge=0, le=1)] | None, BeforeValidator(_replace_non_finite)]
Match = Annotated[
    list[Share],
    Field(description="per draft position, the share of held-out positions where its top token matched the target's"),
]


class TrainingPoint(ResponseModel):
    """An evaluation during the training, on held-out text."""

    step: Count = Field(description="training steps so far")
    loss: Figure = Field(None, description="mean training loss since the last evaluation, in nats; null for the first")
    divergence: Figure = Field(description="divergence from the target for the first token of a draft, in nats")
    match: Match


class DrafterSpeed(ResponseModel):
    """Tokens per second of whole answers with one drafter; `none` decodes without drafting."""

    drafter: Line
    batch: Count
    temperature: Figure
    tokens_per_s: Figure


class TrainingData(ResponseModel):
    """Its training data. Prompts and texts that share ten words in a row with an evaluated task are dropped."""

    n_tokens: Count | None = None
    n_documents: Count | None = None
    n_prompts: Count | None = Field(None, description="all prompts, the dropped ones included")
    dropped_prompts: Count | None = None
    dropped_texts: Count | None = None
    n_bytes: Count | None = Field(None, description="size of the collected data on disk")
    steps: Count | None = Field(None, description="training steps")
    weights: Line | None = Field(None, description="the weights that wrote the text: `dense`, or `int8` where faster")


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
    hours: Figure = Field(description="time of the training; 0 for an imported one")
    match: Match


class DrafterDetails(DrafterDocument):
    """A trained drafter with the measurements of its training and its speeds."""

    curve: list[TrainingPoint]
    speeds: list[DrafterSpeed]
    data: TrainingData


def list_drafters(session: Session) -> list[DrafterDetails]:
    """The trained drafters by the names of their targets. Those with damaged records are left out."""
    found = []
    for record in heads.load_records(session):
        try:
            drafter = DrafterDetails.model_validate({**asdict(record), "slug": ""})
        except ValidationError:
            continue
        found.append(drafter.model_copy(update={"slug": _slugify_target(drafter.target)}))
    return sorted(found, key=lambda drafter: drafter.target)


def get_drafter(session: Session, slug: str) -> DrafterDetails:
    """The trained drafter of this name. Raises NotFoundError."""
    for drafter in list_drafters(session):
        if drafter.slug == slug:
            return drafter
    raise NotFoundError(f"no trained drafter has the name {slug[:200]!r}: /models and /api/v1/drafters list all")


def _slugify_target(target: str) -> str:
    try:
        return registry.resolve(target).slug
    except UnknownModelError:  # its folder or file has gone, or was named relative to another folder
        return f"drafter-{hashlib.sha256(target.encode()).hexdigest()[:10]}"
