"""Builds the checked task of a function from its recorded calls, and the dataset from all tasks."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from evaluation.datasets import Task
from evaluation.from_code import checks, mutants
from evaluation.from_code.called import (
    list_called_examples,
    list_callee_exceptions,
    list_receivers,
    list_texts_by_parameter,
    list_texts_compared_by_callees,
)
from evaluation.from_code.calls.cases import (
    Case,
    choose_varied_cases,
    find_fixed_values,
    find_none_parameters,
    find_types,
    keep_repeatable,
    returns_none_too,
)
from evaluation.from_code.calls.nearby import CallSources
from evaluation.from_code.calls.observe import PlacedFunction, Variant
from evaluation.from_code.calls.record import Recording
from evaluation.from_code.calls.recorded import RecordedCall
from evaluation.from_code.calls.signatures import keep_typed_cases, resolve_defaults
from evaluation.from_code.fairness import (
    Fairness,
    drop_cases,
    find_needs,
    find_unnamed_exceptions,
    judge_fairness,
    list_showable,
)
from evaluation.from_code.mutants import Mutant, list_identities, list_trivial_variants
from evaluation.from_code.nearby_cases import NearbyCases, find_nearby_cases
from evaluation.from_code.reasons import ExcludedError
from evaluation.from_code.source.closure import ModuleSources
from evaluation.from_code.source.context import Context, build_prompt
from evaluation.from_code.source.duplicates import find_duplicates
from evaluation.from_code.source.examples import list_docstring_examples
from evaluation.from_code.source.find import ProjectFunction
from evaluation.from_code.source.project import Origin, Project
from evaluation.from_code.tasks import (
    LINES_AFTER,
    LINES_BEFORE,
    build_completion_row,
    build_infilling_row,
    choose_test_form,
    place_function,
    remove_decorators,
)
from evaluation.from_code.unstated import find_attribute_names, find_constants
from evaluation.sandbox import Sandbox
from evaluation.source import list_positional_arguments
from evaluation.verdicts import Trust

BUILDER = "from-code-24"
"""A change of the recording, the choice or the output gets a new version, so that stored datasets keep their
meaning."""
JUDGE = "cases"
_MAX_SHOWABLE = 30
"""Cases that are run against all mutants, to choose examples from."""
_MAX_LONG = 10
"""The same for long examples."""


@dataclass
class TaskResult:
    """The task of one function: a row of the dataset, or the reason why there is none."""

    key: str
    row: dict[str, Any] | None = None
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Options:
    """Lines of the file around the body in infilling form, the seconds that each command of the tests may take, the
    interpreter whose programs come first on their PATH ("" to leave PATH as it is), and what a prompt of the completion
    form shows."""

    before: int = LINES_BEFORE
    after: int = LINES_AFTER
    limit_s: float = 900.0
    python: str = ""
    context: Context = "function"
    judge: str = "auto"  # "cases" or "tests": one judge; "cases" too if the tests are refused
    store_secrets: bool = False  # files whose names look like secrets, for the project's tests


@dataclass(frozen=True)
class BuildContext:
    """What the task of every function is built from."""

    sandbox: Sandbox
    project: Project
    origin: Origin
    functions: Sequence[ProjectFunction]
    recording: Recording
    sources: ModuleSources
    options: Options

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """The names that the project's classes give their attributes, without those that common types have too."""
        return find_attribute_names(module.tree for module in self.project.modules.values())

    @cached_property
    def texts_by_parameter(self) -> dict[str, list[str | bytes]]:
        """The texts and bytes that the tests called functions with, by the name of the parameter."""
        return list_texts_by_parameter(self.functions, self.recording.calls)


def make_task_from_calls(work: BuildContext, function: ProjectFunction) -> TaskResult:
    """The task of one function, checked, or the reason why there is none."""
    return make_task_from_row(
        function,
        _CasesTask(work, function).build_row,
        reason="is called with values that are nested too deep to compare",
    )


def make_task_from_row(function: ProjectFunction, build_row: Callable[[], dict[str, Any]], reason: str) -> TaskResult:
    """The task with the row, or why there is none: `reason` after a RecursionError."""
    started = time.monotonic()
    try:
        made = TaskResult(function.key, build_row())
    except ExcludedError as error:
        made = TaskResult(function.key, reason=error.reason, detail=error.detail)
    except RecursionError:
        made = TaskResult(function.key, reason=reason)
    except ValueError as error:
        if "f-string" not in str(error):  # ast.unparse says no more of what it cannot write
            raise
        made = TaskResult(function.key, reason="has an f-string that Python before 3.12 cannot write again")
    made.seconds = round(time.monotonic() - started, 2)
    return made


@dataclass
class _CasesTask:
    """The task of one function whose recorded calls judge."""

    work: BuildContext
    function: ProjectFunction
    program: PlacedFunction = field(init=False)

    def build_row(self) -> dict[str, Any]:
        """The row of the dataset. Raises ExcludedError."""
        work, function, sandbox, node = self.work, self.function, self.work.sandbox, self.function.node
        if function.has_unknown_decorator:
            raise ExcludedError("has a decorator that may change what its callers see")
        self.program = place_function(function, work.sources)
        examples = list_docstring_examples(function)
        calls = self._get_recorded_calls(bool(examples))
        repeated = checks.repeat_calls(sandbox, self.program, calls)
        checks.require_repeated(repeated, calls)
        cases, loaded = repeated.cases, repeated.loaded
        if examples:
            cases, others = checks.run_docstring_examples(sandbox, self.program, examples, cases)
            loaded |= others
        found = keep_repeatable(cases)
        cases = keep_typed_cases(function, found, checks.MIN_CASES)
        against_hints = len(found) - len(cases)
        if len(cases) < checks.MIN_CASES:
            raise ExcludedError(f"has fewer than {checks.MIN_CASES} calls whose arguments and results are data")
        cases = checks.mark_promised(cases, ast.get_docstring(node) or "")
        chosen = choose_varied_cases(cases)
        _check_variety(chosen)
        self.program = PlacedFunction(self.program.placement.keep_modules(sorted(loaded)), self.program.definition)
        bare = remove_decorators(node)
        names = [argument.arg for argument in list_positional_arguments(bare.args)]
        use = mutants.FunctionUse(
            function.owner, find_fixed_values(chosen, names), returns_none_too(cases),
            find_none_parameters(cases, names), list_callee_exceptions(bare, function.module.tree),
            find_types(cases, names),
        )  # fmt: skip
        faulty = tuple(mutants.build_mutants(bare, checks.MAX_MUTANTS, use))
        if len(faulty) < checks.MIN_MUTANTS:
            reason = f"has fewer than {checks.MIN_MUTANTS} mutants, too few to judge its test"
            raise ExcludedError(reason, str(len(faulty)))
        score = checks.judge_mutants(sandbox, self.program, chosen, checks.MutationScore(faulty, faulty))
        elsewhere = CallSources(
            list_receivers(work.recording.calls, function),
            list_texts_compared_by_callees(bare, function.module.tree),
            work.texts_by_parameter,
        )
        with_numbers = resolve_defaults(bare, function.module.tree)
        near = find_nearby_cases(sandbox, self.program, with_numbers, chosen, cases, score.survivors, elsewhere)
        cases, fair = self._add_fair_nearby_cases(chosen, near, faulty)
        row = self._build_row_without_unstated(cases, fair, score)
        if row is None:
            row = self._build_judged_row(cases, fair, score)
            row["source"] |= {
                "unstated": list(fair.unstated),
                "stated_share": round(1 - len(fair.unstated_cases) / len(cases), 4),
            }
        row["source"]["against_hints"] = against_hints
        return row

    def _get_recorded_calls(self, has_examples: bool) -> list[RecordedCall]:
        recording, key = self.work.recording, self.function.key
        calls = recording.calls.get(key, [])
        if calls or has_examples:
            return calls
        if refused := recording.refused.get(key):
            raise ExcludedError("returns values that are not data", ", ".join(sorted(set(refused))))
        ended = f"before the tests {recording.failure}" if recording.failure else "while the tests ran"
        called = key in recording.covering.list_called_functions()
        raise ExcludedError(f"was not called with data {ended}" if called else f"was not called {ended}")

    def _add_fair_nearby_cases(
        self, chosen: Sequence[Case], near: NearbyCases, faulty: Sequence[Mutant]
    ) -> tuple[list[Case], Fairness]:
        """The chosen cases and those of `near`, without the added ones that ask for what the prompt does not tell; and
        the fairness of the rest."""
        work, function, program = self.work, self.function, self.program
        docstring = ast.get_docstring(function.node) or ""
        cases = [*chosen, *near.shown, *near.judging]
        prompt = build_prompt(work.project, function, work.options.context, LINES_BEFORE)
        constants = find_constants(remove_decorators(function.node), work.attribute_names)
        changes = [(each, source) for each in constants if not each.is_in(prompt) for source in each.variants]
        numbers = _list_showable_numbers(function, cases, near.shown)
        every = tuple(range(len(cases)))
        identities = list_identities(function.node, function.is_generator)
        variants = [
            *(Variant(source, every) for _, source in changes),
            *(Variant(source, numbers) for source in (*identities, *(mutant.source for mutant in faulty))),
            *(
                Variant(source, every, stop_at_first=True)
                for source in (*self._list_trivial_variants(cases), program.definition)
            ),
        ]
        # refuse_trivial finds the last ones in `program.known`
        noticed = checks.find_noticing_cases_of_variants(work.sandbox, program, cases, variants)
        needs = find_needs(cases, [(each, found) for (each, _), found in zip(changes, noticed, strict=False)])
        needs += find_unnamed_exceptions(cases, prompt, function.node.lineno)
        faults = list(map(frozenset[int], noticed[len(changes) : len(changes) + len(identities) + len(faulty)]))

        def judge() -> Fairness:
            shown = frozenset(number for number, case in enumerate(cases) if case in near.shown)
            unchanged, others = faults[: len(identities)], faults[len(identities) :]
            return judge_fairness(cases, function.qualified, needs, docstring, shown, others, unchanged)

        fair = judge()
        while unfair := frozenset(number for number in fair.unstated_cases if number >= len(chosen)):
            needs, faults = drop_cases(needs, faults, unfair, len(cases))
            cases = [case for number, case in enumerate(cases) if number not in unfair]
            fair = judge()
        return cases, fair

    def _list_trivial_variants(self, cases: Sequence[Case]) -> list[str]:
        raised = sorted({case.outcome.raised[0] for case in cases if case.outcome.raised})
        return list_trivial_variants(self.function.node, raised, self.function.is_generator)

    def _build_row_without_unstated(
        self, cases: Sequence[Case], fair: Fairness, score: checks.MutationScore
    ) -> dict[str, Any] | None:
        """The task without the cases that ask for what the prompt does not tell; None where there are no such cases, or
        where the others are too few or make no strong test.

        Mutants that only the dropped cases notice do not count either: nobody asks for that part.
        """
        stated = [case for number, case in enumerate(cases) if number not in fair.unstated_cases]
        if len(stated) == len(cases) or len(stated) < checks.MIN_CASES:
            return None
        try:
            _check_variety(stated)
            missed = checks.judge_mutants(self.work.sandbox, self.program, cases, score).survivors
            every = checks.MutationScore(score.mutants, score.mutants)
            left = checks.judge_mutants(self.work.sandbox, self.program, stated, every).survivors
            asked = tuple(mutant for mutant in score.mutants if mutant in missed or mutant not in left)
            if len(asked) < checks.MIN_MUTANTS:
                return None
            row = self._build_judged_row(stated, fair, checks.MutationScore(asked, asked))
        except ExcludedError:
            return None
        row["source"] |= {"unstated": [], "unstated_cases": len(fair.unstated_cases), "stated_share": 1.0}
        return None if row["source"]["weak"] else row

    def _build_judged_row(self, cases: Sequence[Case], fair: Fairness, score: checks.MutationScore) -> dict[str, Any]:
        """The task with these cases as its judge, after they judged the original and the survivors of `score`."""
        work, function = self.work, self.function
        placement = replace(self.program.placement, form=choose_test_form(cases))
        program = replace(self.program, placement=placement)
        checks.refuse_trivial(work.sandbox, program, cases, self._list_trivial_variants(cases))
        source = {
            **describe_source(work, function, JUDGE, Trust.PROXY),
            "cases": len(cases),
            "nearby_cases": sum(case.nearby for case in cases),
            "called": list_called_examples(function, work.recording),
        }
        if tops := {name.partition(".")[0] for name in placement.modules} - work.project.list_top_names():
            source["packages"] = sorted(tops)
        row = build_completion_row(
            work.project, function, placement, cases, source, work.options.context, fair.examples
        )
        names = ("task_id", "prompt", "entry_point", "test", "canonical_solution", "module")
        task = Task(**{name: row[name] for name in names})
        checks.check_original(work.sandbox, task, row["prompt"] + row["canonical_solution"])
        score = checks.judge_mutants(work.sandbox, program, cases, score).drop_unclear()
        row["source"] |= score.to_json(score.is_weak(cases))
        return row


def _list_showable_numbers(function: ProjectFunction, cases: Sequence[Case], shown: Sequence[Case]) -> tuple[int, ...]:
    """The numbers of the cases that the prompt shows in any case, `shown` or documented, and of the first ones that it
    may show: at most _MAX_SHOWABLE short ones and _MAX_LONG long ones."""
    certain = (number for number, case in enumerate(cases) if case.documented or case in shown)
    short, long = list_showable(cases, function.qualified)
    return tuple(dict.fromkeys([*certain, *short[:_MAX_SHOWABLE], *long[:_MAX_LONG]]))


def _check_variety(cases: Sequence[Case]) -> None:
    if len(cases) < checks.MIN_CASES:
        raise ExcludedError(f"has fewer than {checks.MIN_CASES} calls that are short enough for its test")
    if not any(case.is_informative() for case in cases):
        raise ExcludedError("returns and changes nothing in every call")
    if len({(case.outcome.returned, case.outcome.raised[:1], case.outcome.after) for case in cases}) == 1:
        raise ExcludedError("does the same in every call, so that its test could not tell it from a constant")


def describe_source(work: BuildContext, function: ProjectFunction, judge: str, trust: Trust) -> dict[str, Any]:
    """Where a task comes from and how answers to it are judged."""
    return {
        "project": work.project.name,
        "version": work.origin.version,
        "commit": work.origin.commit,
        "licence": work.origin.licence,
        "file": function.module.path,
        "line": function.node.lineno,
        "judge": judge,
        "kind": function.kind,
        "trust": trust.value,
        "builder": BUILDER,
    }


@dataclass
class BuiltDataset:
    """The rows of both forms in the project's order, and the result of every function."""

    completion: list[dict[str, Any]] = field(default_factory=list)
    infilling: list[dict[str, Any]] = field(default_factory=list)
    made: list[TaskResult] = field(default_factory=list)


def assemble_dataset(
    functions: Sequence[ProjectFunction], made: Sequence[TaskResult], options: Options
) -> BuiltDataset:
    """The dataset: each problem once, in both forms."""
    by_key = {function.key: function for function in functions}
    kept = [each for each in made if each.row is not None]
    repeats = find_duplicates([by_key[each.key].node for each in kept])
    result = BuiltDataset(made=list(made))
    ids: dict[str, int] = {}
    for index, each in enumerate(kept):
        if index in repeats:
            earlier, same = repeats[index]
            how = "has the same body as another function" if same else "has nearly the same body as another function"
            place = result.made.index(each)
            result.made[place] = TaskResult(each.key, reason=how, detail=kept[earlier].key, seconds=each.seconds)
            continue
        assert each.row is not None
        row = dict(each.row)
        ids[row["task_id"]] = count = ids.get(row["task_id"], 0) + 1
        if count > 1:  # defined again, under another condition
            row["task_id"] += f"#{count}"
        result.completion.append(row)
        result.infilling.append(build_infilling_row(row, by_key[each.key], options.before, options.after))
    return result
