"""How to repeat a completion from a shell."""

from __future__ import annotations

import json
import shlex
from typing import Any

from app.completions.schemas import CompletionSpec
from app.completions.service import typed_test
from app.datasets.models import Task
from app.runs.models import Run
from app.runs.schemas import DecodingSpec


def curl(run: Run, task: Task, address: str, *, tokens: bool) -> str:
    """The curl command that asks the service at `address` for the same completion, streamed as it is written."""
    given: dict[str, Any] = {
        **{name: getattr(run, name) for name in DecodingSpec.model_fields},
        **{name: getattr(task, name) for name in ("prompt", "entry_point", "language", "suffix")},
        "test": typed_test(task),
    }
    fields = CompletionSpec.model_fields
    body = {name: value for name, value in given.items() if fields[name].is_required() or value != fields[name].default}
    words = ["curl", "-N", address.rstrip("/") + "/api/v1/complete", "-H", "Accept: text/event-stream"]
    words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    shell = shlex.join(words)
    return shell + ' -H "Authorization: Bearer $BASSLINE_TOKEN"' if tokens else shell
