"""The rows of the table and the figures of `bassline bench decode`, from the measured speeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks._arms import (
    GENERATE,
    INT8,
    PEER,
    PLAIN,
    SIBLING,
    SIBLING_TRAINED,
    TRAINED,
    Speed,
    is_ours,
    parse_weights,
)
from benchmarks._report import compute_quartiles
from decoding.models.loaded import LoadedModel
from decoding.request import Round

Speeds = Mapping[str, Sequence[Speed]]
"""Of each arm, for the same prompts in the same order."""

LLAMA_CPP = f"{PEER}llamacpp"
"""The peer of this name is compared with plain decoding."""


def build_rows(model: str, n: int, temperature: float, speeds: Speeds) -> Iterator[dict[str, Any]]:
    """A line of the table for each arm."""
    for arm, runs in speeds.items():
        low, middle, high = compute_quartiles([run.rate for run in runs])
        samples = [s for run in runs if run.completion for s in run.completion.samples]
        rounds = sum(s.n_rounds for s in samples)
        drafted = sum(s.n_drafted for s in samples)
        accepted = sum(s.n_accepted for s in samples)
        first, last, mean = _compute_latencies(runs)
        yield {
            "model": model,
            "n": n,
            "T": temperature,
            "arm": arm,
            "tokens/s": middle,
            "quartiles": f"{low:.0f} to {high:.0f}",
            "vs plain": _format_ratio(_compute_ratio(speeds, arm, PLAIN)),
            "vs generate": _format_ratio(_compute_ratio(speeds, arm, GENERATE)),
            "first finished s": compute_quartiles(
                [run.first_s for run in runs if run.first_s is not None] or [float("nan")]
            )[1],
            "acceptance length": 1 + accepted / rounds if rounds else float("nan"),
            "acceptance rate": accepted / drafted if drafted else float("nan"),
            "other texts": _count_other_texts(speeds, arm),
            "first ms/token": first,
            "last": last,
            "all": mean,
        }


def compute_figures(
    model: str, n: int, temperature: float, speeds: Speeds, known: Mapping[str, float]
) -> dict[str, float]:
    """Ratios between arms at this temperature, and the best over temperatures; `known` are the figures so far.

    Where several arms are named, the best one of ours counts, against the best of the others.
    """
    speculative = [arm for arm in speeds if is_ours(arm) and arm not in (PLAIN, INT8 + PLAIN)]
    dense = [arm for arm in speculative if parse_weights(arm) == "dense"]
    quantized = [arm for arm in speculative if arm not in dense]
    peers = [arm for arm in speeds if not is_ours(arm)]
    wanted = {
        "plain_vs_generate": ([PLAIN], [GENERATE]),
        "int8_vs_bf16_plain": ([INT8 + PLAIN], [PLAIN]),
        "int8_speculative_vs_plain": (quantized, [INT8 + PLAIN]),
        "speculative_vs_plain": (dense, [PLAIN]),
        "speculative_vs_generate": (dense, [GENERATE]),
        "plain_vs_llamacpp": ([PLAIN, INT8 + PLAIN], [LLAMA_CPP]),
        "speculative_vs_best_peer": (speculative, peers),
        "trained_vs_plain": ([TRAINED], [PLAIN]),
        "sibling_trained_vs_sibling": ([SIBLING_TRAINED], [SIBLING]),
    }
    found: dict[str, float] = {}
    for key, (ours, others) in wanted.items():
        worst = [
            min(ratios)
            for arm in ours
            if (ratios := [r[1] for other in others if (r := _compute_ratio(speeds, arm, other)) is not None])
        ]
        if worst:
            found[f"{model}.b{n}.t{temperature:g}.{key}"] = max(worst)
            found[f"{model}.b{n}.{key}"] = max(*worst, known.get(f"{model}.b{n}.{key}", 0.0))
    for arm in dense:
        if ratio := _compute_ratio(speeds, arm, PLAIN):
            found[f"{model}.b{n}.t{temperature:g}.{arm}.vs_plain"] = ratio[1]
    return found


def compute_round_over_weight_read(target: LoadedModel, runs: Sequence[Speed], bandwidth: float) -> float:
    """Return the mean time of a round over the time to read the target's weights once; the runs must have rounds."""
    rounds = _collect_rounds(runs)
    return _sum_seconds(rounds) / len(rounds) / (target.n_weight_bytes / bandwidth)


def _collect_rounds(runs: Sequence[Speed]) -> list[Round]:
    return [r for run in runs if run.completion for r in run.completion.rounds]


def _sum_seconds(rounds: Sequence[Round]) -> float:
    return sum(r.draft_s + r.verify_s + r.other_s for r in rounds)


def _compute_ratio(speeds: Speeds, arm: str, base: str) -> tuple[float, float, float] | None:
    """Quartiles of the ratio of two arms over the prompts."""
    if arm not in speeds or base not in speeds or arm == base:
        return None
    return compute_quartiles([a.rate / b.rate for a, b in zip(speeds[arm], speeds[base], strict=True)])


def _count_other_texts(speeds: Speeds, arm: str) -> int | str:
    """How many samples have another text than plain decoding with the same weights gives them."""
    plain = INT8 + PLAIN if parse_weights(arm) == "int8" else PLAIN
    if not is_ours(arm) or plain not in speeds or arm == plain:
        return "-"
    pairs = zip(speeds[arm], speeds[plain], strict=True)
    both = [(a.completion.samples, b.completion.samples) for a, b in pairs if a.completion and b.completion]
    return sum(x.text != y.text for ours, theirs in both for x, y in zip(ours, theirs, strict=True))


def _format_ratio(ratio: tuple[float, float, float] | None) -> str:
    return f"{ratio[1]:.2f} ({ratio[0]:.2f} to {ratio[2]:.2f})" if ratio else "-"


def _compute_latencies(runs: Sequence[Speed]) -> tuple[float, float, float]:
    """Medians over the prompts of First, Last and All (BASS, section 4), ms per token."""
    timed = []
    for run in runs:
        done = sorted(
            (s.finished_s, s.ms_per_token)
            for s in (run.completion.samples if run.completion else ())
            if s.finished_s is not None and s.ms_per_token is not None
        )
        if done:
            timed.append((done[0][1], done[-1][1], sum(ms for _, ms in done) / len(done)))
    nothing = float("nan")
    first, last, mean = (compute_quartiles([t[i] for t in timed])[1] if timed else nothing for i in range(3))
    return first, last, mean
