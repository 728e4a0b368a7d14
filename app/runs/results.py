"""The figures of a run, as the database, the API and `--json` have them (docs/metrics.md)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Dialect
from sqlalchemy.types import TypeDecorator

from app.core.db.types import Json


class Figures(BaseModel):
    """The figures of a run (docs/metrics.md); empty until it has ended once.

    None is a value that cannot be measured, such as Pass@First without tests. Shares are over `tasks`, at `budget_s`
    seconds, with the sample chosen by `selector`.
    """

    model_config = ConfigDict(frozen=True)

    tasks: int = Field(0, description="tasks that were graded, or decoded in a run without tests")
    tasks_selected: int = Field(0, description="tasks asked for, after exclusion")
    dataset_tasks: int = 0
    tasks_excluded: int = Field(0, description="tasks whose own solution fails here")
    tasks_sandbox_error: int = Field(0, description="tasks left out because the sandbox failed on them")
    tasks_failed: int = 0
    tasks_decoded: int = Field(0, description="decoded tasks, graded or not, without failed and cancelled ones")
    tasks_left: int = Field(0, description="tasks that are not finished, which resuming would run")
    samples: int = 0
    samples_passed: int = 0
    samples_finished: int = Field(0, description="samples that ended within the budget")
    selector: str | None = Field(None, description="how the sample of Pass@First is chosen")
    budget_s: float | None = None
    pass_first: float | None = Field(None, description="Pass@First at the run's budget")
    pass_first_interval: tuple[float, float] | None = Field(None, description="Wilson's, at 95 %")
    pass_all: float | None = Field(None, description="Pass@All at the run's budget")
    pass_all_interval: tuple[float, float] | None = Field(None, description="Wilson's, at 95 %")
    ranking_loss: float | None = Field(None, description="Pass@All minus Pass@First")
    pass_at_1: float | None = Field(None, description="the unbiased estimate, without a budget")
    in_guest_tasks: int | None = Field(None, description="tasks with verdicts that a program could have forged")
    in_guest_samples: int | None = Field(None, description="samples whose verdict could be forged (trust: in-guest)")
    in_guest_passed: int | None = Field(None, description="in_guest_samples that passed")
    pass_first_proxy: float | None = Field(None, description="Pass@First with in_guest_passed as failed")
    pass_all_proxy: float | None = Field(None, description="Pass@All with in_guest_passed as failed")
    weak_tasks: int | None = Field(None, description="graded tasks whose test kills few mutants (docs/from-code.md)")
    unstated_tasks: int | None = Field(
        None, description="other graded tasks that ask for what the prompt does not tell"
    )
    pass_first_strong: float | None = Field(None, description="Pass@First over the tasks that are neither")
    pass_all_strong: float | None = Field(None, description="Pass@All over the tasks that are neither")
    tests_tasks: int | None = Field(None, description="graded tasks that their project's own tests judge")
    pass_first_tests: float | None = Field(None, description="Pass@First over tests_tasks")
    pass_all_tests: float | None = Field(None, description="Pass@All over tests_tasks")
    pass_first_cases: float | None = Field(None, description="Pass@First over the other tasks, where there are both")
    pass_all_cases: float | None = Field(None, description="Pass@All over the other tasks, where there are both")
    ms_per_token_first: float | None = Field(None, description="of the first sample to finish, mean over tasks")
    ms_per_token_last: float | None = Field(None, description="of the last sample to finish, mean over tasks")
    ms_per_token_all: float | None = Field(None, description="of all finished samples, mean over tasks")
    tokens: int = 0
    tokens_per_s: float | None = Field(None, description="tokens of all samples per second of decoding")
    mean_acceptance_length: float | None = Field(None, description="tokens per sample and round, the target's included")
    seconds_per_right: float | None = Field(None, description="seconds of decoding per task that Pass@First counts")
    peak_memory_bytes: int | None = Field(None, description="of the device, highest over all tasks")
    budget_overrun_max_s: float | None = None
    first_finished_p50_s: float | None = Field(None, description="median over tasks of the first finished sample")
    first_finished_p95_s: float | None = None
    clock_drift: float | None = Field(
        None,
        description="how much longer a verify took in the slowest third of the run than in the fastest, as a share",
    )
    tasks_disturbed: int | None = Field(None, description="tasks that lost too much of the machine to others")
    lost_to_others_max: float | None = Field(None, description="the largest share of the machine a task lost to others")
    clock_marks: tuple[str, ...] | None = Field(
        None, description="why the times of the run are not to be trusted; null: not known"
    )
    plain_run: str | None = Field(None, description="the run without drafting that --compare-plain made")
    speedup_over_plain: float | None = Field(None, description="tokens per second, as a multiple of plain_run's")
    speedup_tasks: int | None = Field(None, description="tasks that both runs decoded")


NO_FIGURES = Figures()


class FiguresColumn(TypeDecorator[Figures]):
    """Figures as JSON."""

    impl = Json
    cache_ok = True

    def process_bind_param(self, value: Figures | None, dialect: Dialect) -> dict[str, Any] | None:
        """The figures that are set."""
        return None if value is None else value.model_dump(mode="json", exclude_unset=True)

    def process_result_value(self, value: dict[str, Any] | None, dialect: Dialect) -> Figures | None:
        """The figures, without those that were not set."""
        return None if value is None else Figures(**value)
