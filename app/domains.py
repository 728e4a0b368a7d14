"""What every process imports before its first query: all tables, the policies of runs, and the handlers of jobs.

With every table loaded, `Base.metadata` is whole for migrations and mappers.
"""

from collections.abc import Sequence

import app.accounts.models
import app.completions.models
import app.core.db.archives
import app.datasets.models
import app.language_models.models
import app.samples.models
import app.studies.models
import app.workers.models  # noqa: F401 (loads its tables, as those above)
from app.background.handlers import HANDLERS, Handler
from app.core.db.types import Base
from app.runs.policy import POLICIES, Policy

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
