"""Code from a model's repository (`trust_remote_code`): run only for the very commits that the operator named."""

from __future__ import annotations

import os
import re

from decoding.models import manifest
from decoding.models.errors import DamagedModelError, ModelError
from decoding.models.manifest import ModelInfo
from decoding.models.registry import HubModel, ModelEntry, is_repository

VARIABLE = "BASSLINE_TRUSTED_CODE"
_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_trusted(entry: ModelEntry) -> bool:
    """Whether the operator lets this model bring its own code: `owner/name@commit` stands in `BASSLINE_TRUSTED_CODE`.

    The list is separated by blanks. A branch or tag is not enough, as it may point to other code tomorrow. Raises
    ModelError for a list that says anything else.
    """
    named = os.environ.get(VARIABLE, "").split()
    for name in named:
        repo, _, commit = name.partition("@")
        if not is_repository(repo) or not _COMMIT.fullmatch(commit):
            raise ModelError(f"{VARIABLE} names {name!r}: give owner/name@commit, with all 40 digits of the commit.")
    return isinstance(entry, HubModel) and f"{entry.repo}@{entry.revision}" in named


def check_code(info: ModelInfo) -> None:
    """Hash the model's code again; called before it runs, as files in a cache can be changed by others.

    Raises DamagedModelError for a file that is not the one that was pulled, or whose hash nobody took then: earlier
    versions recorded no code, and a hash taken now would vouch for whatever lies there.
    """
    found = {str(path.relative_to(info.folder)): path for path in info.folder.rglob("*.py")}
    recorded = {name: record for name, record in info.files.items() if name.endswith(".py")}
    differing = found.keys() ^ recorded.keys()
    differing |= {name for name in found.keys() & recorded.keys() if not manifest.is_same(found[name], recorded[name])}
    if differing:
        raise DamagedModelError(
            f"{info.name} brings code that is not known to be what was pulled ({', '.join(sorted(differing))}):"
            f" delete {info.folder} and run `bassline models pull {info.ref}`."
        )
