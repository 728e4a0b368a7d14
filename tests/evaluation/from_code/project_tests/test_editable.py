"""Packages in editable mode come along with the tests, as installed ones do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.from_code.project_tests.covering import read_calls_by_test
from evaluation.from_code.project_tests.files import read_installed_files
from evaluation.from_code.source.closure import ModuleSources
from evaluation.from_code.source.project import open_project


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """The folder of packages: pytest, the package `dep` in editable mode, and `other`, which no test imports."""
    place = tmp_path / "lib/python3.11/site-packages"
    for name in ("dep", "other"):
        info = place / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        url = {"url": (tmp_path / f"my {name}").as_uri(), "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(url))
        (info / "METADATA").write_text(f"Name: {name}\n")
        (place / f"__editable__.{name}.pth").write_text(str(tmp_path))
        listed = (f"{info.name}/METADATA", f"{info.name}/direct_url.json", f"__editable__.{name}.pth")
        (info / "RECORD").write_text("".join(f"{path},,\n" for path in listed))
    (place / "pytest").mkdir()
    (place / "pytest/__init__.py").write_text("")
    (place / "pytest-9.dist-info").mkdir()
    (place / "pytest-9.dist-info/RECORD").write_text("pytest/__init__.py,,\n")
    package = tmp_path / "my dep/src/dep/inner"
    package.mkdir(parents=True)
    for path in (package.parent, package):
        (path / "__init__.py").write_text("")
    (package / "table.json").write_text("{}")
    (tmp_path / "my dep/src/tests.py").write_text("")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/shop.py").write_text("def f(x):\n    return x\n")
    seen = tmp_path / "seen"
    seen.mkdir()
    modules = [str(package / "__init__.py"), str(place / "pytest/__init__.py"), "/usr/lib/python3.11/json/__init__.py"]
    (seen / "seen-1.jsonl").write_text(json.dumps({"modules": modules, "path": [str(place)]}) + "\n")
    return tmp_path


def test_a_package_in_editable_mode_comes_whole_and_under_its_name(places: Path) -> None:
    covering = read_calls_by_test(places / "seen", set())
    files, names = read_installed_files(open_project(str(places / "shop")), covering)
    assert set(files) == {
        "dep-1.0.dist-info/METADATA", "dep/__init__.py", "dep/inner/__init__.py", "dep/inner/table.json",
        "pytest/__init__.py",
    }  # fmt: skip
    assert names == ("dep 1.0", "pytest 9")


def test_recorded_calls_find_its_modules_too(places: Path) -> None:
    covering = read_calls_by_test(places / "seen", set())
    module = ModuleSources(open_project(str(places / "shop")), covering.path).find_module("dep.inner")
    assert module is not None
    assert module.is_package


@pytest.mark.parametrize("version", [None, 5, ["3"]])
def test_what_the_tests_process_wrote_may_be_anything(places: Path, version: object) -> None:
    (places / "seen/seen-2.jsonl").write_text(json.dumps({"modules": ["x"], "python": version}) + "\n")
    assert read_calls_by_test(places / "seen", set()).python == []
