"""Every table in one import, so that `Base.metadata` is whole for migrations and mappers."""

from app.accounts.models import BrowserSession, Token, User
from app.capacity.models import LoadTest
from app.datasets.models import Dataset, DatasetCheck, Task
from app.db.types import Base
from app.http.idempotency_models import IdempotencyKey
from app.runs.index_models import TaskWords
from app.runs.models import Calibration, Run, RunCurve, RunTag, RunTask
from app.samples.models import Sample
from app.studies.models import Study, StudyArm, StudyTag
from app.workers.models import Worker

metadata = Base.metadata

__all__ = [
    "BrowserSession",
    "Calibration",
    "Dataset",
    "DatasetCheck",
    "IdempotencyKey",
    "LoadTest",
    "Run",
    "RunCurve",
    "RunTag",
    "RunTask",
    "Sample",
    "Study",
    "StudyArm",
    "StudyTag",
    "Task",
    "TaskWords",
    "Token",
    "User",
    "Worker",
    "metadata",
]
