"""The request for a completion."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from app.core.db.storable import InputText
from app.core.errors import BadInputError
from app.runs.schemas import MAX_N, DecodingSpec, PromptModeOption
from evaluation.datasets import PYTHON
from evaluation.languages import registry

MAX_CHARACTERS = 200_000


class CompletionSpec(DecodingSpec):
    """One prompt, n samples, a budget; with a test, each sample is judged. The body of POST /api/v1/complete."""

    prompt: InputText = Field(
        min_length=1, max_length=MAX_CHARACTERS, description="code to continue, sent byte for byte"
    )
    test: InputText = Field("", max_length=MAX_CHARACTERS, description="asserts, or HumanEval's def check(candidate)")
    entry_point: InputText = Field("", max_length=200, description="function under test; empty: the prompt's last")
    language: InputText = Field(PYTHON, max_length=30, description=f"of the prompt: {', '.join(registry.LABELS)}")
    suffix: InputText | None = Field(None, max_length=MAX_CHARACTERS, description="what follows the gap, for infilling")
    prompt_mode: PromptModeOption = "completion"
    n_min: int | None = Field(
        None, ge=1, le=MAX_N, description="samples that are enough while the service is short of time; empty: n"
    )

    @model_validator(mode="after")
    def _check_language(self) -> Self:
        if self.language not in registry.LABELS:
            raise BadInputError(f"language is {self.language!r}: use {', '.join(registry.LABELS)}", "language")
        if self.language != PYTHON and self.test.strip():
            label = registry.LABELS[self.language]
            raise BadInputError(f"test judges Python only: leave it out for {label}, or evaluate a dataset", "test")
        return self
