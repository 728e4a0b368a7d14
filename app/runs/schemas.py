"""The options of a run, each declared once; app/runs/options.py says what follows from a declaration.

To add an option, add a field here, a column to app/runs/models.py with its migration, and the code that obeys it: a
field of decoding.config.EngineConfig for one of EngineOptions, a field of decoding.request.Request for one of
DecodingSpec, the job for one of RunOptions. tests/app/runs/test_options.py fails where it is missing.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from app.core.db.storable import DisplayName, InputText
from app.core.remote.target import is_remote
from app.core.settings import MAX_BUDGET_S, MIN_BUDGET_S
from app.runs.options import Fieldset, Option
from app.web.http.schemas import RequestModel
from decoding.config import ACCEPTANCES, DEVICES, DRAFT_LENGTH_POLICIES, DTYPES, WEIGHTS, EngineConfig
from decoding.drafters import registry as drafters
from decoding.request import RequestError, SamplingParams

MAX_N = 256
MAX_TOKENS = 8192
MAX_TIME_LIMIT_S = 30 * 24 * 3600.0
QuietLimit = Annotated[float | None, Field(gt=0, le=MAX_TIME_LIMIT_S, allow_inf_nan=False)]
QUIET_LIMIT_HELP = "wait before each task until other programs leave the machine, at most this many seconds in all"
PromptMode = Literal["auto", "chat", "completion", "infill", "raw"]
PromptModeOption = Annotated[
    PromptMode,
    # The mode used is in the fingerprint instead: `auto` is not the same for every model.
    Option("Prompt mode", Fieldset.DECODING, choices=get_args(PromptMode), fingerprint=False),
    Field(description="how a task becomes a prompt; auto: chat if the model has a chat template", examples=["chat"]),
]
_DEFAULTS = EngineConfig(target="any")
_SAMPLING = SamplingParams()


class EngineOptions(RequestModel):
    """The options that decide which engine is loaded: each is the field of EngineConfig with the same name."""

    target: Annotated[InputText, Option("Target model", Fieldset.MODEL)] = Field(
        min_length=1,
        max_length=500,
        description="a registry key, hf:owner/name, a folder, a GGUF file, or openai:MODEL@URL",
        examples=["qwen2.5-coder-0.5b"],
    )
    drafter: Annotated[InputText, Option("Drafter", Fieldset.DECODING)] = Field(
        _DEFAULTS.drafter,
        max_length=500,
        validate_default=True,
        description=f"source of proposed tokens: {', '.join(drafters.list_forms())}; MODEL is a model reference",
        examples=["ngram"],
    )
    draft_length: Annotated[InputText, Option("Draft length", Fieldset.DECODING)] = Field(
        _DEFAULTS.draft_length,
        description=f"tokens drafted per round: {', '.join(DRAFT_LENGTH_POLICIES)} or fixed:K",
        examples=["fixed:4"],
    )
    acceptance: Annotated[InputText, Option("Acceptance", Fieldset.DECODING, choices=ACCEPTANCES)] = Field(
        _DEFAULTS.acceptance, description="the rule that accepts drafted tokens", examples=["maximal"]
    )
    dtype: Annotated[InputText, Option("Dtype", Fieldset.DECODING, choices=DTYPES)] = Field(
        _DEFAULTS.dtype, description="dtype of the weights and activations", examples=["float32"]
    )
    weights: Annotated[InputText, Option("Weights", Fieldset.DECODING, choices=WEIGHTS)] = Field(
        _DEFAULTS.weights,
        description="dense; int8: 8-bit integers, faster on a CPU; fp8: 8-bit floats, on a GPU (Ada, Hopper or later)."
        " Quantized weights are another model with figures of its own",
        examples=["int8"],
    )
    device: Annotated[InputText, Option("Device", Fieldset.DECODING, choices=DEVICES)] = Field(
        _DEFAULTS.device, description="where the models run", examples=["cpu"]
    )

    @field_validator("drafter")
    @classmethod
    def _forbid_drafter_of_remote_target(cls, drafter: str, given: ValidationInfo) -> str:
        if not is_remote(str(given.data.get("target"))):
            return drafter
        if drafter not in (_DEFAULTS.drafter, "none"):
            raise ValueError("a remote target drafts as it likes, leave it out")
        return "none"

    @field_validator("*")
    @classmethod
    def _require_engine_accepts(cls, value: Any, given: ValidationInfo) -> Any:
        name = str(given.field_name)
        if name not in EngineOptions.model_fields:
            return value
        # The device is validated after the weights, which may be for another one.
        weights = {"weights": given.data["weights"]} if name == "device" and "weights" in given.data else {}
        try:
            EngineConfig(**{"target": "any", name: value, **weights})
        except RequestError as error:
            raise ValueError(str(error).removeprefix(f"{name} is {value!r}: ")) from None
        return value


class _Samples(RequestModel):
    n: Annotated[int, Option("Samples per task", Fieldset.SAMPLES)] = Field(
        8, ge=1, le=MAX_N, description="samples per task, decoded side by side", examples=[3]
    )


class _BudgetAndSeed(RequestModel):
    budget_s: Annotated[float, Option("Budget per task", Fieldset.SAMPLES)] = Field(
        10.0,
        ge=MIN_BUDGET_S,
        le=MAX_BUDGET_S,
        description="seconds of wall clock per task; the figures cover every smaller budget too",
        examples=[4.5],
    )
    seed: Annotated[int, Option("Seed", Fieldset.SAMPLES)] = Field(
        0, ge=0, le=2**63 - 1, description="seed of the random numbers", examples=[7]
    )


class _Sampling(RequestModel):
    max_tokens: Annotated[int, Option("Max tokens per sample", Fieldset.SAMPLES)] = Field(
        512, ge=1, le=MAX_TOKENS, description="a sample ends after this many tokens", examples=[64]
    )
    temperature: Annotated[float, Option("Temperature", Fieldset.SAMPLES)] = Field(
        _SAMPLING.temperature, ge=0, le=10, description="0 is greedy", examples=[0.7]
    )
    top_p: Annotated[float, Option("Top-p", Fieldset.SAMPLES)] = Field(
        _SAMPLING.top_p,
        gt=0,
        le=1,
        description="samples from the most likely tokens that hold this share of the probability",
        examples=[0.5],
    )
    prompt_mode: PromptModeOption = "auto"

    @model_validator(mode="after")
    def _require_sampler_accepts(self) -> Self:
        try:
            SamplingParams(temperature=self.temperature, top_p=self.top_p)
        except RequestError as error:
            raise ValueError(str(error)) from None
        return self


class ArmOptions(_Sampling, _Samples, EngineOptions):
    """The options in which the arms of a study may differ; the budget, the seed and the tasks are the study's."""


class SampleOptions(_Sampling, _BudgetAndSeed, _Samples):
    """How samples are drawn and how long they may take, by whatever engine."""


class DecodingSpec(SampleOptions, EngineOptions):
    """How n samples of a prompt are decoded: what runs and single completions have in common."""


class RunOptions(DecodingSpec):
    """All options that are stored with a run: each is the column of `runs` with the same name."""

    time_limit_s: Annotated[float | None, Option("Time limit", Fieldset.RUN, fingerprint=False)] = Field(
        None,
        gt=0,
        le=MAX_TIME_LIMIT_S,
        description="start no further task this many seconds after decoding began (default: no limit)",
        examples=[600.0],
    )
    throughput: Annotated[bool, Option("Several tasks in one batch", Fieldset.RUN)] = Field(
        False,
        description="decode several tasks in one batch: more tokens per second, later answers; the run is not ranked",
        examples=[True],
    )
    prefix_cache: Annotated[bool, Option("Prefix cache", Fieldset.RUN)] = Field(
        False,
        description="prefill a prompt only from where it differs from earlier ones: the same texts, sooner for all "
        "tasks but the first",
        examples=[True],
    )

    @field_validator("prefix_cache")
    @classmethod
    def _forbid_cache_of_remote_target(cls, prefix_cache: bool, given: ValidationInfo) -> bool:
        if prefix_cache and is_remote(str(given.data.get("target"))):
            raise ValueError("a remote target caches as it likes, leave it out")
        return prefix_cache


class TaskChoice(RequestModel):
    """The tasks that a run or a study works on."""

    dataset: Annotated[InputText, Option("Dataset", Fieldset.MODEL)] = Field(
        "humaneval", max_length=200, description="name of a dataset"
    )
    limit: Annotated[int | None, Option("First tasks only", Fieldset.MODEL)] = Field(
        None, ge=1, description="only the first K tasks (default: all)"
    )
    task_ids: Annotated[tuple[InputText, ...], Option("These tasks only", Fieldset.MODEL)] = Field(
        (), description="only these tasks, by their ids (default: all)"
    )
    weak: Annotated[bool, Option("Tasks with weak tests or unstated rules too", Fieldset.MODEL)] = Field(
        False,
        description="also the tasks made from code with weak tests, or that ask for what the prompt does not tell",
    )

    @model_validator(mode="after")
    def _require_one_choice(self) -> Self:
        if self.limit is not None and self.task_ids:
            raise ValueError("task_ids and limit exclude each other: give one of them")
        return self


class RunSpec(TaskChoice, RunOptions):
    """One configuration over (some of) the tasks of a dataset; the body of POST /api/v1/runs and of New run."""

    name: Annotated[DisplayName, Option("Name", Fieldset.RUN)] = Field(
        "", max_length=200, description="the name in lists (default: target, drafter, n and budget)"
    )
    quiet_limit_s: Annotated[QuietLimit, Option("Wait for a quiet machine", Fieldset.RUN, fingerprint=False)] = Field(
        None, description=QUIET_LIMIT_HELP
    )

    @model_validator(mode="after")
    def _forbid_wait_without_clock(self) -> Self:
        if self.quiet_limit_s is not None and (self.throughput or is_remote(self.target)):
            why = "a run for throughput" if self.throughput else "a remote target"
            raise ValueError(f"quiet_limit_s is for tasks with a clock on this machine: leave it out for {why}")
        return self


class ImportSpec(RequestModel):
    """Samples that another tool made: what they are to be called, and over which dataset they are judged."""

    target: InputText = Field(
        min_length=1, max_length=500, description="the model that wrote the samples, as lists call it"
    )
    dataset: InputText = Field("humaneval", max_length=200, description="name of a dataset")
    name: DisplayName = Field("", max_length=200, description="how lists call the run; empty: target and file")
