"""The project of a job, ready for its tests: a folder of this machine, or an archive, written for the sandbox."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.advice.schemas import AdviceSpec
from app.advice.service import UploadedProject, find_interpreter
from app.datasets import from_code
from evaluation.from_code.build import Options
from evaluation.from_code.calls.commands import resolve_command
from evaluation.from_code.calls.confined import Confinement
from evaluation.from_code.project_tests.requirements import install_packages, parse_requirements
from evaluation.from_code.source.project import Project, open_project
from evaluation.from_code.source.uploaded import check_sources, derive_name, unpack_project, write_project
from evaluation.sandbox import Sandbox
from evaluation.sandbox.interpreter import NOBODY, get_dropped_identity

LIMIT_S = 300.0
"""Time limit of one run of the tests; both runs together stay below the broker's message timeout."""


@dataclass(frozen=True, slots=True)
class PreparedProject:
    """A project with the command of its tests; with a `confinement` they run in the sandbox alone."""

    project: Project
    command: list[str]
    options: Options
    confinement: Confinement | None


def open_folder(spec: AdviceSpec) -> PreparedProject:
    """A folder of this machine, whose tests run as its user runs them. Raises ProjectError, BadInputError."""
    python = find_interpreter(spec)
    command = resolve_command(from_code.split_command(spec.tests), python)
    return PreparedProject(open_project(spec.path), command, Options(limit_s=LIMIT_S, python=python), None)


def open_archive(spec: AdviceSpec, archive: UploadedProject, folder: Path, sandbox: Sandbox) -> PreparedProject:
    """An archive, written into the folder with the packages that its tests need. What is there already stays.

    Raises ProjectError.
    """
    packages, complete = folder / "site-packages", folder / "complete"
    project = folder / "source" / derive_name(archive.name)
    confinement = Confinement(sandbox, packages)
    confinement.require_namespaces()
    if not (complete.is_file() and folder.stat().st_uid in (os.geteuid(), NOBODY)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        write_project(unpack_project(archive.data, archive.name), project)
        check_sources(project)
        install_packages(parse_requirements(spec.requirements), packages, sandbox.python.version[:2])
        if get_dropped_identity():  # the sandbox runs as another user, who alone may enter
            os.chown(folder, NOBODY, NOBODY)
        complete.touch()
    command = confinement.resolve(spec.tests)
    return PreparedProject(open_project(str(project)), command, Options(limit_s=LIMIT_S), confinement)


def find_archive_folder(job_id: object) -> Path:
    """Where the archive of a job is written: not in the data folder, which the sandbox's user may not enter."""
    return Path(tempfile.gettempdir()) / f"bassline-sent-{job_id}"
