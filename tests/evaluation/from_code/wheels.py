"""Packages of this environment as wheels, so that pip installs without a network."""

from __future__ import annotations

import importlib.metadata
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


def read_distribution(name: str) -> Iterator[tuple[str, bytes]]:
    """The installed files of a distribution by their paths in the folder of packages."""
    for file in importlib.metadata.distribution(name).files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            yield file.as_posix(), Path(str(file.locate())).read_bytes()


def copy_distributions(names: tuple[str, ...], folder: Path) -> Path:
    """The folder with these distributions, as pip would fill it."""
    for name in names:
        for path, content in read_distribution(name):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return folder


def build_wheels(
    folder: Path, names: tuple[str, ...] = PYTEST, more: Mapping[str, Mapping[str, bytes]] | None = None
) -> Path:
    """The folder with a wheel of each distribution; `more` are further files of its metadata."""
    folder.mkdir(parents=True)
    for name in names:
        version = importlib.metadata.version(name)
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            for path, content in read_distribution(name):
                if path.endswith(".dist-info/RECORD"):
                    rows = dict.fromkeys([*(line.partition(b",")[0].decode() for line in content.splitlines())])
                    info = PurePosixPath(path).parent
                    extra = {f"{info}/{file}": data for file, data in (more or {}).get(name, {}).items()}
                    rows |= dict.fromkeys(extra)
                    listed = "".join(
                        f"{row},,\n" for row in rows if not row.startswith("..") and "__pycache__" not in row
                    )
                    wheel.writestr(path, listed)
                    for file, data in extra.items():
                        wheel.writestr(file, data)
                elif PurePosixPath(path).name not in ("INSTALLER", "REQUESTED", "direct_url.json"):
                    wheel.writestr(path, content)
    return folder
