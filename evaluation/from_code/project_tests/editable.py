"""Packages that are installed in editable mode: their modules are not in the folder of packages, but in a project's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit


def find_project(info: Path) -> Path | None:
    """The project's folder of a distribution in editable mode, by its `.dist-info`; None for another one."""
    try:
        found = json.loads((info / "direct_url.json").read_text("utf-8"))
        url = urlsplit(found["url"])
        editable = found["dir_info"]["editable"] is True and url.scheme == "file"
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return Path(unquote(url.path)).resolve() if editable else None


def find_used_packages(folder: Path, files: Iterable[str]) -> set[Path]:
    """The top-level packages and modules of a project that hold one of these files."""
    found = set()
    for file in map(Path, files):
        if file.is_relative_to(folder):
            while (file.parent / "__init__.py").is_file():
                file = file.parent  # noqa: PLW2901  (climbs to the package)
            found.add(file)
    return found


def find_import_roots(places: Sequence[str], files: Sequence[str]) -> set[str]:
    """The folders from which packages in editable mode are imported; `places` are the folders of packages."""
    folders = {folder for place in places for info in Path(place).glob("*.dist-info") if (folder := find_project(info))}
    return {str(package.parent) for folder in folders for package in find_used_packages(folder, files)}


def iterate_files(package: Path) -> Iterator[tuple[str, Path]]:
    """(path on sys.path, file) of a package or module."""
    every = sorted(package.rglob("*")) if package.is_dir() else [package]
    for file in every:
        if file.is_file() and not file.is_symlink() and "__pycache__" not in file.parts:
            yield file.relative_to(package.parent).as_posix(), file
