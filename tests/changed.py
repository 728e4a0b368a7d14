"""The tests of what changed, for `make check`: each changed file's package, as tests/ mirrors the packages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "benchmarks", "decoding", "evaluation", "kernels")


def changed_files() -> list[str]:
    """Files that differ from where this branch left main, or on main from the last commit, and new ones."""
    base = _git("merge-base", "HEAD", "main") or _git("rev-parse", "HEAD")
    return [*_git("diff", "--name-only", *base), *_git("ls-files", "--others", "--exclude-standard")]


def tests_of(files: Iterable[str]) -> list[str]:
    """The test files and folders that mirror `files`, relative to the root, without one inside another.

    A changed test stands for itself. A changed module stands for the test file of its name, and otherwise for the
    folder of the nearest package that has one.
    """
    found = {place for file in files if (place := _tests_of(Path(file))) is not None}
    return sorted(str(place) for place in found if not found.intersection(place.parents))


def _tests_of(file: Path) -> Path | None:
    if file.parts[0] == "tests":
        is_test = file.name.startswith("test_") and file.suffix == ".py"
        place = file if is_test else file.parent
        return place if (ROOT / place).exists() and place.parts != ("tests",) else None
    if file.parts[0] not in PACKAGES:
        return None
    mirror = Path("tests") / file.parent
    while not (ROOT / mirror).is_dir():
        mirror = mirror.parent
    named = mirror / f"test_{file.stem}.py"
    if (ROOT / named).is_file():
        return named
    return mirror


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split()


if __name__ == "__main__":
    print(*tests_of(changed_files()))  # noqa: T201 (make reads it)
