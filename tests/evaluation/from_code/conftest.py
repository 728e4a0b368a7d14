"""A small project with tests, and the sandbox that is best on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evaluation.from_code.source.project import Project, open_project
from evaluation.sandbox import Sandbox


@pytest.fixture(scope="module", autouse=True)
def _plugins_of_this_suite_stay_out() -> Iterator[None]:
    """The projects' pytest would load them in every process, which takes longer than their tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        yield


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    return Sandbox.detect()


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Project]:
    """Opens a project in the test's folder; see opener_in."""
    return opener_in(tmp_path)


def opener_in(parent: Path) -> Callable[..., Project]:
    """Returns a function that writes files into `parent/shop` and opens it as a project.

    A path with folders is a key of its dict, a module's name in the folder itself a keyword.
    """

    def write_and_open(files: dict[str, str] | None = None, **modules: str) -> Project:
        for name, source in {**(files or {}), **{f"{name}.py": source for name, source in modules.items()}}.items():
            path = parent / "shop" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8", errors="surrogatepass")
        return open_project(str(parent / "shop"))

    return write_and_open
