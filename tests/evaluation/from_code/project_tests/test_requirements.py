"""Requirements of a project that was sent: packages by name, installed from wheels alone."""

from __future__ import annotations

import sys

import pytest

from evaluation.from_code.project_tests.requirements import MAX_REQUIREMENTS, install_packages, parse_requirements
from evaluation.from_code.reasons import ProjectError
from tests.evaluation.from_code.wheels import build_wheels

VERSION = sys.version_info[:2]


def test_names_with_versions_are_taken_and_pytest_is_added():
    text = "# tools\nattrs >= 23  # why\n\nmore_itertools[extra]==1.0\n"
    assert parse_requirements(text) == ["attrs>=23", "more_itertools[extra]==1.0", "pytest"]
    assert parse_requirements("PyTest<10") == ["PyTest<10"]


@pytest.mark.parametrize(
    "line",
    ["-e .", "--index-url https://x.org", "../wheel.whl", "a @ https://x.org/a.whl", "a @ file:///etc/a", "a b"],
)
def test_what_is_no_name_is_refused_with_the_remedy(line):
    with pytest.raises(ProjectError, match="is not a requirement: give names of packages"):
        parse_requirements(line)


def test_there_is_a_limit():
    with pytest.raises(ProjectError, match="give at most"):
        parse_requirements("\n".join(f"a{number}" for number in range(MAX_REQUIREMENTS + 1)))


def test_wheels_are_installed_and_name_no_folder_of_this_machine(tmp_path, monkeypatch):
    more = {"iniconfig": {"direct_url.json": b'{"url": "file:///root", "dir_info": {"editable": true}}'}}
    monkeypatch.setenv("PIP_FIND_LINKS", str(build_wheels(tmp_path / "wheels", ("iniconfig",), more)))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    install_packages(["iniconfig"], tmp_path / "site-packages", VERSION)
    assert (tmp_path / "site-packages" / "iniconfig" / "__init__.py").is_file()
    assert list((tmp_path / "site-packages").glob("*.dist-info/METADATA"))
    assert not list((tmp_path / "site-packages").glob("*.dist-info/direct_url.json"))
    with pytest.raises(ProjectError, match=r"cannot be installed as wheels: .*no-such-package"):
        install_packages(["no-such-package"], tmp_path / "other", VERSION)
