"""Code from a model's repository (`trust_remote_code`): it runs only for commits that the operator listed."""

from __future__ import annotations

import os
import re

from decoding.models import manifest
from decoding.models.errors import ModelError
from decoding.models.manifest import ModelInfo
from decoding.models.registry import HubModel, ModelEntry, is_repository

VARIABLE = "BASSLINE_TRUSTED_CODE"
_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_trusted(entry: ModelEntry) -> bool:
    """Whether this model may run code from its repository: `BASSLINE_TRUSTED_CODE` lists its `owner/name@commit`.

    Entries are separated by spaces. A branch or tag is refused, because it can move to other code. Raises ModelError
    for an entry of any other form.
    """
    named = os.environ.get(VARIABLE, "").split()
    for name in named:
        repo, _, commit = name.partition("@")
        if not is_repository(repo) or not _COMMIT.fullmatch(commit):
            raise ModelError(f"{VARIABLE} names {name!r}: give owner/name@commit, with all 40 digits of the commit.")
    return isinstance(entry, HubModel) and f"{entry.repo}@{entry.revision}" in named


def check_code(info: ModelInfo) -> None:
    """Hash the model's Python files and compare them with the record. Call this before the code runs.

    Other users may be able to change files in a cache. Raises ModelError for a file that differs from the
    record, is missing, or has no record: earlier versions did not record code, and a hash taken now proves nothing.
    """
    present = {str(path.relative_to(info.folder)): path for path in info.folder.rglob("*.py")}
    recorded = {name: record for name, record in info.files.items() if name.endswith(".py")}
    differing = present.keys() ^ recorded.keys()
    differing |= {
        name for name in present.keys() & recorded.keys() if not manifest.is_same(present[name], recorded[name])
    }
    if differing:
        raise ModelError(
            f"{info.name} has code that differs from what was pulled, or was not recorded"
            f" ({', '.join(sorted(differing))}):"
            f" delete {info.folder} and run `bassline models pull {info.ref}`."
        )
