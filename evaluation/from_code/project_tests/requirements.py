"""The packages for the tests of a project that was sent: wheels, from the index that pip is configured for.

Installing a wheel runs none of its code, unlike a source distribution.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from evaluation.from_code.reasons import ProjectError

MAX_REQUIREMENTS = 50
_MAX_BYTES = 512 * 2**20
_LIMIT_S = 200.0


def parse_requirements(text: str) -> list[str]:
    """The requirements of a text, one on each line as in requirements.txt, and pytest. Raises ProjectError."""
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    found = [_parse(line) for line in lines if line and not line.startswith("#")]
    if len(found) > MAX_REQUIREMENTS:
        raise ProjectError(f"there are {len(found)} requirements: give at most {MAX_REQUIREMENTS}")
    names = {canonicalize_name(each.name) for each in found}
    return [*map(str, found), *([] if "pytest" in names else ["pytest"])]


def _parse(line: str) -> Requirement:
    try:
        found = Requirement(line)
    except InvalidRequirement:
        found = None
    if found is None or found.url:
        raise ProjectError(
            f"{line[:100]!r} is not a requirement: give names of packages with versions, as in attrs>=23"
        )
    return found


def install_packages(requirements: Sequence[str], folder: Path, version: tuple[int, int]) -> None:
    """Install wheels for this version of Python into a new folder. Raises ProjectError."""
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"),
        *("--no-compile", "--only-binary", ":all:", "--python-version", "{}.{}".format(*version)),
        *("--target", str(folder), *requirements),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ProjectError(f"the packages are not installed within {_LIMIT_S:g} s: require fewer") from None
    if done.returncode:
        errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        said = errors[-1][:300] if errors else f"pip ended with {done.returncode}"
        raise ProjectError(f"the requirements cannot be installed as wheels: {said}")
    if sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) > _MAX_BYTES:
        shutil.rmtree(folder)
        raise ProjectError(f"the packages have more than {_MAX_BYTES // 2**20} MiB: require fewer")
    for origin in folder.glob("*.dist-info/direct_url.json"):
        origin.unlink()  # it may name any folder of this machine as the place of an editable package
