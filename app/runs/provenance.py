"""What a run was measured with, as its engine reported it: the keys whose values are checked, and all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from app.core.db.storable import InputText, require_storable

TEMPLATE_KWARGS = "chat_template_kwargs"
"""What a request gave to the chat template beside its messages, as JSON."""
Word = Annotated[InputText, Field(max_length=500)]


class Provenance(BaseModel):
    """The engine's report. Other keys than these are shown, and compared as they are."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, JsonValue]

    device_name: Word | None = None
    device: Word | None = None
    dtype: Word | None = None
    cpu: Word | None = None
    target_parameters: Annotated[int, Field(ge=1, le=10**15, strict=True)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _require_storable(cls, value: Any) -> Any:
        return require_storable(value)


def get_target_parameters(provenance: Mapping[str, Any]) -> int | None:
    """The parameters of the target model; None where they are not known.

    Also None if the stored report is invalid.
    """
    try:
        return Provenance.model_validate(provenance).target_parameters
    except ValidationError:
        return None
