"""What a completion is asked to be."""

from __future__ import annotations

from pydantic import Field

from app.http.schemas import Text
from app.runs.schemas import DecodingSpec, PromptModeOption

MAX_CHARACTERS = 200_000


class CompletionSpec(DecodingSpec):
    """One prompt, n samples, a budget; with a test, each sample is judged. The body of POST /api/v1/complete."""

    prompt: Text = Field(min_length=1, max_length=MAX_CHARACTERS, description="code to continue, sent byte for byte")
    test: Text = Field("", max_length=MAX_CHARACTERS, description="asserts, or HumanEval's def check(candidate)")
    entry_point: Text = Field("", max_length=200, description="function under test; empty: the prompt's last")
    suffix: Text | None = Field(None, max_length=MAX_CHARACTERS, description="what follows the gap, for infilling")
    prompt_mode: PromptModeOption = "completion"
