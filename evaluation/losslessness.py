"""Whether speculation changes what a server writes: the same prompts with and without it, and each of them twice.

Two texts are compared up to their first difference, and a text that was cut off only as far as it goes. What the server
writes without speculation differs from itself where it is not batch-invariant: only what speculation changes beyond
that is a change. A first difference between two tokens of nearly the same probability is a tie that rounding decides.
With a temperature, other texts for the same seeds may still have the same distribution: under equal prefixes, the two
first different tokens are then exchangeable, so each of them is as often the more likely one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from evaluation.decisions import compute_score_interval
from evaluation.significance import ALPHA, POWER, compute_mcnemar_p, count_standard_errors

AuditVerdict = Literal["equal", "within_noise", "changed", "undecided"]
GREEDY, SAMPLED = "greedy", "sampled"
Key = tuple[str, int]  # task_id, index of the sample
VERDICTS: tuple[AuditVerdict, ...] = ("equal", "within_noise", "undecided", "changed")
"""From the best to the worst."""
NEAR_TIE = 0.05
"""Nats between two tokens that rounding may exchange."""
POSITIONS = (1, 4, 16, 64, 256)
"""Upper limits of the histogram of first differences, in tokens."""
MIN_TEXTS = 20  # fewer cannot tell noise from a change
MIN_DIFFERENCES = 40  # first differences for a statement about the distribution
LIKELIHOOD_ALPHA = 0.01
"""The level of the test of the distribution; strict, because this test alone is enough for the verdict `changed`."""
_Z95 = NormalDist().inv_cdf(0.975)


class AuditError(ValueError):
    """Texts that cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class AuditedText:
    """One sample. `tokens` are its token ids or their texts, or its characters where the server sends neither;
    `n_tokens` are counted either way. `is_cut`: it did not end by itself, so nothing is known of what would follow."""

    tokens: Sequence[int] | Sequence[str] | str
    n_tokens: int
    logprobs: Sequence[float]
    is_cut: bool
    passed: bool | None


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two texts part, in tokens; how much more likely the second one's token is, in nats, if that is known."""

    position: int
    place: int  # in `tokens`
    gain: float | None

    @property
    def is_near_tie(self) -> bool:
        """Whether rounding may have decided."""
        return self.gain is not None and abs(self.gain) < NEAR_TIE


Texts = Mapping[Key, AuditedText]


@dataclass(frozen=True, slots=True)
class AuditedDecoding:
    """The verdict about one way to decode, GREEDY or SAMPLED, and what it rests on. Shares are of texts."""

    decoding: str
    verdict: AuditVerdict
    sentence: str
    texts: int
    changed_share: float  # with speculation against without
    changed_interval: tuple[float, float]  # 95 % interval of the changes beyond the noise
    noise_share: float  # without speculation, the second time against the first
    on_noise_share: float  # with speculation, the second time against the first
    p: float  # of the paired test of changes against noise; greedy: without near ties
    near_ties: int  # among first differences; sampled: always 0
    first_difference: Mapping[str, int]  # changed texts by the position of the first different token
    on_more_likely: int  # first differences where speculation's token is the more likely one
    off_more_likely: int
    likelihood_p: float  # of the test that both are as often the more likely one
    detectable_share: float  # of the more likely tokens on one side, 0.5 to 1, that would be found in 80 % of the cases
    pass_at_1_difference: float | None
    pass_at_1_interval: tuple[float, float] | None
    tasks_for_one_point: int | None  # tasks at which a difference of 1 point would be found


def find_first_difference(a: AuditedText, b: AuditedText) -> FirstDifference | None:
    """Where b parts from a, None where it does not as far as both are known."""
    shorter = min(len(a.tokens), len(b.tokens))
    place = next((i for i in range(shorter) if a.tokens[i] != b.tokens[i]), shorter)
    if place == shorter:
        ended = a if len(a.tokens) == shorter else b
        if len(a.tokens) == len(b.tokens) or ended.is_cut:
            return None
    if isinstance(a.tokens, str):
        of = a if a.tokens else b
        return FirstDifference(place * of.n_tokens // max(len(of.tokens), 1), place, None)
    is_known = place < min(len(a.logprobs), len(b.logprobs))
    return FirstDifference(place, place, b.logprobs[place] - a.logprobs[place] if is_known else None)


def audit_decoding(
    decoding: str, off: tuple[Texts, Texts], on: tuple[Texts, Texts]
) -> tuple[AuditedDecoding, Mapping[Key, FirstDifference]]:
    """Compares the texts of two passes without speculation and two with it; also where speculation changes each text.

    Raises AuditError without common texts.
    """
    is_greedy = decoding == GREEDY
    keys = sorted(set(off[0]) & set(off[1]) & set(on[0]) & set(on[1]))
    if not keys:
        raise AuditError("no text was decoded in all four passes: raise the budget, or see why the tasks failed")
    changes = _compare(off[0], on[0], keys)
    noise = _compare(off[0], off[1], keys)
    on_noise = _compare(on[0], on[1], keys)
    clear = {key for key, found in changes.items() if not (is_greedy and found.is_near_tie)}
    clear_noise = {key for key, found in noise.items() if not (is_greedy and found.is_near_tie)}
    wins, losses = len(clear - clear_noise), len(clear_noise - clear)
    gains = [found.gain for found in changes.values() if found.gain]
    more_likely = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    likelihood_p = compute_mcnemar_p(*more_likely)
    errors = count_standard_errors(POWER, LIKELIHOOD_ALPHA)
    detectable = min(1.0, 0.5 + errors / (2 * math.sqrt(len(gains)))) if gains else 1.0
    p = compute_mcnemar_p(wins, losses)
    verdict, sentence = _judge(
        n_texts=len(keys), n_changed=len(changes), n_clear=len(clear), n_noise=len(noise),
        is_beyond=wins > losses and p < ALPHA, is_greedy=is_greedy, n_likelihoods=len(gains), likelihood_p=likelihood_p,
    )  # fmt: skip
    difference, interval, tasks = _compare_verdicts(off[0], on[0], keys)
    audited = AuditedDecoding(
        decoding=decoding,
        verdict=verdict,
        sentence=sentence,
        texts=len(keys),
        changed_share=len(changes) / len(keys),
        changed_interval=_compute_interval(len(keys), wins, losses),
        noise_share=len(noise) / len(keys),
        on_noise_share=len(on_noise) / len(keys),
        p=p,
        near_ties=len(changes) - len(clear),
        first_difference=_count_positions(changes),
        on_more_likely=more_likely[0],
        off_more_likely=more_likely[1],
        likelihood_p=likelihood_p,
        detectable_share=detectable,
        pass_at_1_difference=difference,
        pass_at_1_interval=interval,
        tasks_for_one_point=tasks,
    )
    return audited, changes


def find_worst(verdicts: Sequence[AuditVerdict]) -> AuditVerdict:
    """The verdict about all ways to decode together."""
    return max(verdicts, key=VERDICTS.index)


def _judge(
    *, n_texts: int, n_changed: int, n_clear: int, n_noise: int, is_beyond: bool, is_greedy: bool,
    n_likelihoods: int, likelihood_p: float,
) -> tuple[AuditVerdict, str]:  # fmt: skip
    shares = f"speculation changes {n_changed} of {n_texts} texts, and the server alone {n_noise}"
    if n_changed == 0:
        return "equal", f"equal: {shares}"
    is_other_distribution = not is_greedy and likelihood_p < LIKELIHOOD_ALPHA
    if is_other_distribution or (is_beyond and (is_greedy or n_likelihoods == 0)):
        return "changed", f"changes the {'distribution' if is_other_distribution else 'texts'}: {shares}"
    if is_beyond and n_likelihoods < MIN_DIFFERENCES:
        return "undecided", f"undecided: {shares}, too few to tell whether the distribution is another one"
    if is_beyond:
        return "within_noise", f"other texts for the same seeds, the same distribution as far as this tells: {shares}"
    if n_clear == 0:
        return "within_noise", f"differs only at ties of two tokens, which rounding decides: {shares}"
    if n_noise > 0 and n_texts >= MIN_TEXTS:
        return "within_noise", f"differs as much as this server differs from itself: {shares}"
    return "undecided", f"undecided: {shares}, which may be chance: give more tasks"


def _compare(a: Texts, b: Texts, keys: Sequence[Key]) -> dict[Key, FirstDifference]:
    found = {key: find_first_difference(a[key], b[key]) for key in keys}
    return {key: difference for key, difference in found.items() if difference is not None}


def _count_positions(differences: Mapping[Key, FirstDifference]) -> dict[str, int]:
    names = [f"below {limit}" for limit in POSITIONS] + [f"{POSITIONS[-1]} and later"]
    places = (sum(found.position >= limit for limit in POSITIONS) for found in differences.values())
    counts = Counter(names[place] for place in places)
    return {name: counts[name] for name in names}


def _compare_verdicts(
    off: Texts, on: Texts, keys: Sequence[Key]
) -> tuple[float | None, tuple[float, float] | None, int | None]:
    """(difference of Pass@1, its interval, tasks that would show 1 point), from the first sample of each task."""
    pairs = [(off[key].passed, on[key].passed) for key in keys if key[1] == 0]
    judged = [(before, after) for before, after in pairs if before is not None and after is not None]
    if not judged:
        return None, None, None
    wins = sum(after and not before for before, after in judged)
    losses = sum(before and not after for before, after in judged)
    discordant = max(wins + losses, 1) / len(judged)  # even if none differs in these runs, one may
    tasks = math.ceil(count_standard_errors(POWER, ALPHA) ** 2 * discordant / 1e-4)
    return (wins - losses) / len(judged), _compute_interval(len(judged), wins, losses), tasks


def _compute_interval(n: int, wins: int, losses: int) -> tuple[float, float]:
    low, high = compute_score_interval(n, np.asarray(wins), np.asarray(losses), _Z95)
    return float(low), float(high)
