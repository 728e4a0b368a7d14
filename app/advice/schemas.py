"""What a user says about the project to try, and what the API says about the work on it."""

from __future__ import annotations

import uuid

from pydantic import Field

from app.background.api import JobDocument
from app.core.db.storable import DisplayName, InputText
from app.runs.schemas import QUIET_LIMIT_HELP, QuietLimit
from app.web.http.schemas import RequestModel, ResponseModel


class AdviceSpec(RequestModel):
    """A project, how its tests run, and the models to compare over its code."""

    path: InputText = Field(
        "", max_length=4096, description="folder of the project, where `bassline serve` runs on your own machine"
    )
    python: InputText = Field("", max_length=4096, description="the interpreter of a project in a folder")
    requirements: InputText = Field(
        "", max_length=10_000, description="packages that the tests of an uploaded project need, one on each line"
    )
    tests: InputText = Field(
        "python -m pytest -q", max_length=1000, description="command that runs the project's tests"
    )
    target: InputText = Field(
        "", max_length=4096, description="space-separated models; empty: every model in the cache"
    )
    budget_s: float = Field(3.0, ge=0.5, le=60, description="seconds per answer")
    n: int = Field(4, ge=1, le=16, description="samples per task")
    minutes: float = Field(30.0, ge=1, le=600, description="approximate total minutes")
    name: DisplayName = Field("", max_length=200, description="of the dataset; empty: the project's name")
    quiet_limit_s: QuietLimit = Field(None, description=QUIET_LIMIT_HELP)


class AdviceJob(ResponseModel):
    """The work on a project. Its study and its dataset exist once the work has come so far."""

    job: JobDocument
    step: str = Field(description="what is done now: read, tests, tasks, study or answer")
    dataset_id: uuid.UUID | None
    study_id: uuid.UUID
    advice: str | None = Field(description="which model to use for this code; null until the end")
