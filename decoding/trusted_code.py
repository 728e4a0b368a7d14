"""Code from a model's repository (`trust_remote_code`): run only for the very commits that the operator named."""

from __future__ import annotations

import os
import re

from decoding.model_errors import ModelError
from decoding.registry import HubModel, ModelEntry

VARIABLE = "BASSLINE_TRUSTED_CODE"
_COMMIT = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}")


def is_trusted(entry: ModelEntry) -> bool:
    """Whether the operator lets this model bring its own code: `owner/name@commit` stands in `BASSLINE_TRUSTED_CODE`.

    The list is separated by blanks. A branch or tag is not enough, as it may point to other code tomorrow. Raises
    ModelError for a list that says anything else.
    """
    named = os.environ.get(VARIABLE, "").split()
    for name in named:
        if not _COMMIT.fullmatch(name):
            raise ModelError(f"{VARIABLE} names {name!r}: give owner/name@commit, with all 40 digits of the commit.")
    return isinstance(entry, HubModel) and f"{entry.repo}@{entry.revision}" in named
