"""The self-test: the built-in probes one by one, then a corpus of hostile programs and their traces on the host."""

from __future__ import annotations

import csv
import json
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evaluation.sandbox import probes
from evaluation.sandbox.canaries import Canaries
from evaluation.sandbox.jobs import clean_text
from evaluation.sandbox.limits import Limits
from evaluation.sandbox.sandbox import Sandbox
from evaluation.verdicts import Status

LIMITS = Limits(cpu_s=3, wall_s=3.0)
"""The corpus assumes a wall limit of 3 seconds: one of its programs answers correctly after 3.5."""
_WALL_SLACK_S = 1.0
_MEMORY_GROWTH_MIB = 64
_MEANING = {
    "passed": {Status.PASSED},
    "failed": {Status.WRONG_ANSWER, Status.EXCEPTION, Status.MEMORY},
    "error": {Status.SYNTAX_ERROR, Status.EXCEPTION},
    "crashed": {Status.CRASHED},
    "timeout": {Status.TIMEOUT},
    "output-limit": {Status.OUTPUT_LIMIT},
    "protocol": {Status.FORGED},
}
_NEEDS_SCRATCH = "c07_tmpfile"


@dataclass(frozen=True, slots=True)
class SelftestRow:
    """One line of the table; `kind` is probe, control, dos, escape, forge or host."""

    name: str
    kind: str
    expected: str
    observed: str
    ok: bool
    wall_s: float
    note: str = ""


@dataclass(slots=True)
class SelftestReport:
    """The rows of a self-test. `ok` is False if any row differs from its expectation."""

    tier: str
    sandbox: dict[str, Any]
    rows: list[SelftestRow] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return whether every row is as expected."""
        return all(row.ok for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `--json`."""
        counts = {"rows": len(self.rows), "differ": sum(not row.ok for row in self.rows)}
        return {
            "ok": self.ok,
            "tier": self.tier,
            "sandbox": self.sandbox,
            "limits": asdict(LIMITS),
            "figures": {**counts, "wall_max_s": max((row.wall_s for row in self.rows), default=0.0)},
            "rows": [asdict(row) for row in self.rows],
        }


def run_selftest(
    corpus: Path | None, on_row: Callable[[SelftestRow], None] | None = None, sandbox: Sandbox | None = None
) -> SelftestReport:
    """Run the built-in probes and, with `corpus`, every program of its INDEX.tsv; return the report.

    `on_row` is called with each row as it comes. `sandbox` is by default the best tier of this machine. Raises
    SandboxUnavailableError where there is none, ValueError where the corpus cannot be read.
    """
    programs = _read_corpus(corpus) if corpus else None
    sandbox = sandbox or Sandbox.detect()
    report = SelftestReport(sandbox.tier_name, sandbox.describe())
    for rows in (
        _iterate_probe_rows(sandbox),
        _iterate_corpus_rows(sandbox, corpus, *programs) if corpus and programs else iter(()),
    ):
        for row in rows:
            report.rows.append(row)
            if on_row is not None:
                on_row(row)
    return report


def _iterate_probe_rows(sandbox: Sandbox) -> Iterator[SelftestRow]:
    for name in probes.list_applicable():
        result = sandbox.probe([name])
        open_ = probes.list_failures(result)
        observed = "blocked" if not open_ else "open" if open_ == [name] else open_[0]
        yield SelftestRow(name, "probe", "blocked", observed, not open_, result.wall_s)


def _iterate_corpus_rows(
    sandbox: Sandbox, corpus: Path, index: list[dict[str, str]], tasks: dict[str, Any]
) -> Iterator[SelftestRow]:
    # Processes that started before the canaries were set could not inherit them: start new ones.
    sandbox.close()
    before = _measure_peak_memory_mib()
    with Canaries() as canaries:
        with ThreadPoolExecutor(2) as executor:
            yield from executor.map(lambda entry: _judge(sandbox, corpus, entry, tasks), index)
        growth = _measure_peak_memory_mib() - before
        sandbox.close()
        for name, seen in canaries.observe().items():
            others = name == "connections" and canaries.unwatched
            note = f"another process listens on {', '.join(canaries.unwatched)}" if others else ""
            yield SelftestRow(name, "host", "nothing", "; ".join(seen) or "nothing", not seen, 0.0, note)
    observed = f"{growth:.0f} MiB"
    expected = f"at most {_MEMORY_GROWTH_MIB} MiB"
    yield SelftestRow("judge's peak memory grew by", "host", expected, observed, growth <= _MEMORY_GROWTH_MIB, 0.0)


def _read_corpus(corpus: Path) -> tuple[list[dict[str, str]], dict[str, Any]]:
    try:
        with (corpus / "INDEX.tsv").open(encoding="utf-8", newline="") as file:
            index = list(csv.DictReader(file, delimiter="\t"))
        lines = (corpus / "problems.jsonl").read_text("utf-8").splitlines()
        tasks = {row["task_id"]: SimpleNamespace(**row) for row in map(json.loads, filter(str.strip, lines))}
        for entry in index:
            if not (corpus / f"{entry['name']}.py").is_file() or entry["problem"] not in tasks:
                raise ValueError(f"{entry['name']} has no program or no problem")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the corpus {corpus} cannot be read: {error}") from error
    return index, tasks


def _judge(sandbox: Sandbox, corpus: Path, entry: dict[str, str], tasks: dict[str, Any]) -> SelftestRow:
    program = (corpus / f"{entry['name']}.py").read_text("utf-8")
    runs = 2 if "run twice" in entry["attack"] else 1
    results = [sandbox.judge(program, tasks[entry["problem"]], LIMITS) for _ in range(runs)]
    result = results[-1]
    wall_s = max(run.wall_s - run.waited_s for run in results)
    allowed = {status for word in entry["expected_verdict"].split("|") for status in _MEANING[word]}
    note = "" if wall_s <= LIMITS.wall_s + _WALL_SLACK_S else f"took longer than {LIMITS.wall_s + _WALL_SLACK_S:g} s"
    ok = result.status in allowed and not note
    if entry["name"] == _NEEDS_SCRATCH and result.status == Status.EXCEPTION:
        ok, note = True, "no scratch folder, by design"
    if not ok:
        note = note or result.detail
    return SelftestRow(
        entry["name"], entry["kind"], entry["expected_verdict"], result.status, ok, wall_s, clean_text(note)
    )


def _measure_peak_memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
