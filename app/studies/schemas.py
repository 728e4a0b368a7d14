"""What a study is made of: the options of its arms, and the clock and the tasks that all arms share."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import Field

from app.core.db.storable import DisplayName
from app.core.errors import BadInputError
from app.core.remote.target import is_remote
from app.core.settings import MAX_BUDGET_S, MIN_BUDGET_S
from app.runs.schemas import QUIET_LIMIT_HELP, ArmOptions, QuietLimit, RunSpec, TaskChoice
from app.web.http.schemas import parse_spec

MIN_ARMS, MAX_ARMS = 2, 32
_RUN = RunSpec.model_fields


class ArmSpec(ArmOptions):
    """One configuration of a study."""

    name: DisplayName = Field(
        "", max_length=200, description="the name in tables (default: what differs between the arms)"
    )


class StudySpec(TaskChoice):
    """Configurations over the same tasks, in turns; the body of POST /api/v1/studies and of New study."""

    name: DisplayName = Field("", max_length=200, description="the name in lists (default: the dataset and the arms)")
    budget_s: float = Field(
        _RUN["budget_s"].default,
        ge=MIN_BUDGET_S,
        le=MAX_BUDGET_S,
        description="seconds of wall clock per task, for every arm; the answer covers every smaller budget too",
    )
    seed: int = Field(0, ge=0, le=2**63 - 1, description="seed of the random numbers and of the order of the arms")
    race: bool = Field(False, description="drop an arm as soon as another one is better at every budget of interest")
    quiet_limit_s: QuietLimit = Field(None, description=QUIET_LIMIT_HELP)
    arms: tuple[ArmSpec, ...] = Field(
        min_length=MIN_ARMS, max_length=MAX_ARMS, description="the configurations to compare, at least two"
    )

    def list_names(self) -> list[str]:
        """The name of each arm: its own, or what distinguishes its configuration from the others."""
        return [arm.name or name for arm, name in zip(self.arms, _describe_arms(self.arms), strict=True)]

    def build_run_specs(self) -> list[RunSpec]:
        """The run of each arm. Raises BadInputError that names the arm and the field."""
        specs = []
        shared = self.model_dump(include={*TaskChoice.model_fields, "budget_s", "seed"})
        title = self.name or self.build_default_name()
        for number, (arm, name) in enumerate(zip(self.arms, self.list_names(), strict=True), start=1):
            values: dict[str, Any] = {**arm.model_dump(exclude={"name"}), **shared, "name": f"{title}: {name}"[:200]}
            if not is_remote(arm.target):  # load on this machine does not affect a remote server's times
                values["quiet_limit_s"] = self.quiet_limit_s
            with name_arm_in_errors(number, name):
                specs.append(parse_spec(RunSpec, values))
        return specs

    def build_default_name(self) -> str:
        """A name that distinguishes studies in a list."""
        targets = list(dict.fromkeys(arm.target for arm in self.arms))
        return f"{', '.join(targets)} on {self.dataset}, {len(self.arms)} arms"[:200]


@contextmanager
def name_arm_in_errors(number: int, name: str, shared: Collection[str | None] = ()) -> Iterator[None]:
    """Raises the BadInputError of the block with its arm, counted from 1, named in front; not for `shared` fields."""
    try:
        yield
    except BadInputError as error:
        if error.field in shared:
            raise
        place = f"arms.{number - 1}"
        field = f"{place}.{error.field}" if error.field else place
        raise BadInputError(f"arm {number} ({name}): {error}", field) from None


def _describe_arms(arms: tuple[ArmSpec, ...]) -> list[str]:
    """Target, drafter and n of each arm, and its other options in which the arms differ."""
    always = ("target", "drafter", "n")
    others = [
        field
        for field in ArmOptions.model_fields
        if field not in always and len({getattr(arm, field) for arm in arms}) > 1
    ]
    return [
        ", ".join(
            [arm.target, arm.drafter, f"n = {arm.n}", *(f"{o.replace('_', ' ')} {getattr(arm, o)}" for o in others)]
        )
        for arm in arms
    ]
