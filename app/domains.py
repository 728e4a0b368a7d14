"""What every process imports before its first query: all tables, the policies of runs, and the handlers of jobs.

With every table loaded, `Base.metadata` is whole for migrations and mappers.
"""

from collections.abc import Sequence

from app.accounts.models import BrowserSession, Token, User
from app.background.handlers import HANDLERS, Handler
from app.background.models import BackgroundJob
from app.completions.models import CompletionRun
from app.core.db.archives import ProjectArchive
from app.core.db.types import Base
from app.datasets.models import Dataset, DatasetCheck, Task
from app.language_models.models import PublishedHead
from app.runs.models import Calibration, Run, RunCurve, RunTask
from app.runs.policy import POLICIES, Policy
from app.samples.models import Sample
from app.studies.models import Study, StudyArm
from app.workers.models import Worker

metadata = Base.metadata


def _import_policies() -> Sequence[Policy]:
    from app.completions.policy import CompletionPolicy  # noqa: PLC0415
    from app.runs.policy import EvaluationPolicy  # noqa: PLC0415
    from app.studies.policy import ArmPolicy  # noqa: PLC0415

    return CompletionPolicy(), ArmPolicy(), EvaluationPolicy()


def _import_handlers() -> Sequence[Handler]:
    from app.advice.handler import TryCode  # noqa: PLC0415
    from app.datasets.translation import TranslateDataset  # noqa: PLC0415
    from app.jobs.work.prepare import CheckDatasetForRuns  # noqa: PLC0415
    from app.runs.hidden_runs import DeleteRuns  # noqa: PLC0415
    from app.runs.import_samples import ImportSamples  # noqa: PLC0415
    from app.studies.loading import LoadStudy  # noqa: PLC0415

    return CheckDatasetForRuns(), ImportSamples(), LoadStudy(), DeleteRuns(), TranslateDataset(), TryCode()


POLICIES.register(_import_policies)
HANDLERS.register(_import_handlers)

__all__ = [
    "BackgroundJob",
    "BrowserSession",
    "Calibration",
    "CompletionRun",
    "Dataset",
    "DatasetCheck",
    "ProjectArchive",
    "PublishedHead",
    "Run",
    "RunCurve",
    "RunTask",
    "Sample",
    "Study",
    "StudyArm",
    "Task",
    "Token",
    "User",
    "Worker",
    "metadata",
]
