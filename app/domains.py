"""What every process imports before its first query: all tables, and the policies of all that is worked.

With every table loaded, `Base.metadata` is whole for migrations and mappers.
"""

from app.accounts.models import BrowserSession, Token, User
from app.capacity.models import LoadTest
from app.completions.policy import CompletionPolicy
from app.datasets.models import Dataset, DatasetCheck, Task
from app.db.types import Base
from app.http.idempotency_models import IdempotencyKey
from app.runs import policy
from app.runs.evaluations import EvaluationPolicy
from app.runs.index_models import TaskWords
from app.runs.models import Calibration, Run, RunCurve, RunTag, RunTask
from app.samples.models import Sample
from app.studies.models import Study, StudyArm, StudyTag
from app.studies.policy import ArmPolicy
from app.workers.models import Worker

metadata = Base.metadata
policy.register(CompletionPolicy(), ArmPolicy(), EvaluationPolicy())

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
