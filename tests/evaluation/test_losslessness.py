"""The verdict about speculation, over texts of simulated engines."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from evaluation.losslessness import (
    GREEDY,
    SAMPLED,
    AuditedDecoding,
    AuditedText,
    AuditError,
    audit_decoding,
    find_first_difference,
    find_worst,
)

LENGTH = 120


def audit(off, on, *, is_greedy: bool) -> AuditedDecoding:
    return audit_decoding(GREEDY if is_greedy else SAMPLED, off, on)[0]


def make_text(tokens: Sequence[int] | str, logprobs: Sequence[float] = (), **changes) -> AuditedText:
    values = {"n_tokens": len(tokens), "is_cut": False, "passed": True, **changes}
    return AuditedText(tokens, logprobs=logprobs, **values)


class SimulatedModel:
    """Five tokens at each place, with probabilities that follow from the prefix: 0 is the most likely one."""

    LOGPROBS = (-0.5, -1.5, -2.3, -3.2, -3.9)

    def write(self, rng: random.Random, temperature: float, change_rate: float = 0.0, rng_changes=None) -> AuditedText:
        """A text; at `change_rate` of the places the least likely token in place of the drawn one."""
        weights = [2.718 ** (value / max(temperature, 1e-3)) for value in self.LOGPROBS]
        tokens = []
        for _ in range(LENGTH):
            drawn = rng.choices(range(5), weights)[0] if temperature else 0
            is_changed = rng_changes is not None and rng_changes.random() < change_rate
            tokens.append(4 if is_changed else drawn)
        return make_text(tokens, [self.LOGPROBS[token] for token in tokens])


def write_pass(n_texts: int, temperature: float, seed: object, change_rate: float = 0.0, salt: str = "") -> dict:
    model = SimulatedModel()
    return {
        (f"t{i}", 0): model.write(random.Random(f"{seed} {i}"), temperature, change_rate, random.Random(f"{salt} {i}"))
        for i in range(n_texts)
    }


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_equal_texts_are_equal(temperature):
    texts = write_pass(30, temperature, "seed")
    found = audit((texts, texts), (texts, texts), is_greedy=not temperature)
    assert (found.verdict, found.changed_share, found.noise_share) == ("equal", 0, 0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_engine_that_changes_one_token_in_200_is_found(temperature):
    off = write_pass(164, temperature, "seed")
    on, again = (write_pass(164, temperature, "seed", 1 / 200, salt) for salt in "ab")
    found = audit((off, off), (on, again), is_greedy=not temperature)
    assert found.verdict == "changed"
    assert 0.2 < found.changed_share < 0.7
    assert sum(found.first_difference.values()) == round(found.changed_share * 164)
    assert found.changed_interval[0] > 0.1


def test_a_server_that_differs_from_itself_is_noise_and_speculation_that_does_as_much_no_change():
    """A server that is not batch-invariant: each pass rounds at other places."""
    passes = [write_pass(164, 0.0, "seed", 1 / 400, salt) for salt in "abcd"]
    found = audit((passes[0], passes[1]), (passes[2], passes[3]), is_greedy=True)
    assert found.verdict == "within_noise"
    assert found.noise_share > 0.2
    assert "as much as this server differs from itself" in found.sentence


def test_a_change_is_found_beyond_the_noise_of_the_server():
    off = [write_pass(164, 0.0, "seed", 1 / 1000, salt) for salt in "ab"]
    on = [write_pass(164, 0.0, "seed", 1 / 100, salt) for salt in "cd"]
    assert audit((off[0], off[1]), (on[0], on[1]), is_greedy=True).verdict == "changed"


def test_texts_for_other_seeds_have_the_same_distribution_unless_one_side_prefers_likely_tokens():
    """A server that ignores seeds: nearly all texts differ, so the first different tokens decide."""
    off = [write_pass(164, 1.0, seed) for seed in "ab"]
    on = [write_pass(164, 1.0, seed) for seed in "cd"]
    found = audit((off[0], off[1]), (on[0], on[1]), is_greedy=False)
    assert (found.verdict, found.noise_share) == ("within_noise", 1.0)
    assert 0.6 < found.detectable_share < 0.7
    sharper = [write_pass(164, 0.5, seed) for seed in "cd"]
    found = audit((off[0], off[1]), (sharper[0], sharper[1]), is_greedy=False)
    assert found.verdict == "changed"
    assert found.on_more_likely > found.off_more_likely


def test_other_draws_for_the_same_seeds_are_no_change_of_the_distribution():
    off, on = write_pass(164, 1.0, "a"), write_pass(164, 1.0, "b")
    found = audit((off, off), (on, on), is_greedy=False)
    assert (found.verdict, found.noise_share, found.changed_share) == ("within_noise", 0, 1.0)
    assert "the same distribution as far as this tells" in found.sentence
    few = [dict(list(each.items())[:10]) for each in (off, on)]
    assert audit((few[0], few[0]), (few[1], few[1]), is_greedy=False).verdict == "undecided"


@pytest.mark.parametrize(("temperature", "said"), [(0.0, "the texts"), (1.0, "the texts"), (1.0, "the distribution")])
def test_the_sentence_names_what_was_compared(temperature, said):
    off = write_pass(164, temperature, "seed")
    on = write_pass(164, temperature and (0.5 if said == "the distribution" else temperature), "seed", 1 / 20, "a")
    if said == "the texts":  # a server without log-probabilities
        off, on = ({key: make_text(text.tokens) for key, text in each.items()} for each in (off, on))
    found = audit((off, off), (on, on), is_greedy=not temperature)
    assert found.verdict == "changed"
    assert found.sentence.startswith(f"changes {said}")


def test_ties_of_greedy_decoding_are_rounding():
    off = {(f"t{i}", 0): make_text([1, 2, 3], [-0.7, -0.7, -0.7]) for i in range(40)}
    on = {(f"t{i}", 0): make_text([1, 5, 3], [-0.7, -0.71, -0.7]) for i in range(40)}
    found = audit((off, off), (on, on), is_greedy=True)
    assert (found.verdict, found.near_ties, found.changed_share) == ("within_noise", 40, 1.0)
    assert "rounding" in found.sentence


def test_few_changes_are_undecided():
    off = {(f"t{i}", 0): make_text([1, 2, 3]) for i in range(40)}
    on = {key: make_text([1, 2, 4]) if key == ("t0", 0) else text for key, text in off.items()}
    assert audit((off, off), (on, on), is_greedy=True).verdict == "undecided"


@pytest.mark.parametrize(
    ("a", "b", "position"),
    [
        (make_text([1, 2]), make_text([1, 2]), None),
        (make_text([1, 2]), make_text([1, 3]), 1),
        (make_text([1, 2]), make_text([1, 2, 3]), 2),
        (make_text([1, 2], is_cut=True), make_text([1, 2, 3]), None),
        (make_text([1, 2], is_cut=True), make_text([1, 3], is_cut=True), 1),
        (make_text([1, 2, 3], is_cut=True), make_text([1, 2]), 2),
        (make_text("", n_tokens=0), make_text("abcd", n_tokens=2), 0),
        (make_text("abcdef", n_tokens=3), make_text("abcdxx", n_tokens=3), 2),
        (make_text([7] * 500), make_text([7] * 500), None),  # a degenerate repetition
        (make_text([7] * 500), make_text([7] * 499 + [8]), 499),
    ],
)
def test_texts_part_where_both_are_known(a, b, position):
    found = find_first_difference(a, b)
    assert (None if found is None else found.position) == position


def test_pass_at_1_has_an_interval_and_the_tasks_that_a_point_needs():
    off = {(f"t{i}", 0): make_text([i], passed=i < 30) for i in range(100)}
    on = {(f"t{i}", 0): make_text([i], passed=10 <= i < 30) for i in range(100)}
    found = audit((off, off), (on, on), is_greedy=True)
    assert found.pass_at_1_difference == pytest.approx(-0.1)
    low, high = found.pass_at_1_interval
    assert low < -0.1 < high < 0
    assert found.tasks_for_one_point == pytest.approx(7849, rel=0.01)
    ungraded = {key: make_text([1], passed=None) for key in off}
    assert audit((ungraded, ungraded), (on, on), is_greedy=True).pass_at_1_difference is None


def test_nothing_in_common_is_said():
    with pytest.raises(AuditError, match="no text was decoded in all four passes"):
        audit(({}, {}), ({}, {}), is_greedy=True)
    assert find_worst(["equal", "changed", "undecided"]) == "changed"
