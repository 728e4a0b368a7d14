"""The figures of `bassline bench decode` are ratios taken prompt by prompt, the best speculative arm's first."""

from benchmarks._arms import Speed
from benchmarks.decode import _figures


def speeds(**rates: list[float]) -> dict[str, list[Speed]]:
    return {arm.replace("__", "/").replace("_k", ":"): [Speed(int(r), 1.0) for r in of] for arm, of in rates.items()}


MEASURED = speeds(generate=[10, 20, 40], none=[20, 40, 80], ngram__goodput=[40, 60, 80], sibling__goodput=[60, 80, 240])


def test_the_best_arm_counts_by_the_median_of_its_ratios() -> None:
    figures = _figures("m", 8, 0.2, MEASURED, {})
    assert figures["m.b8.plain_vs_generate"] == 2.0
    assert figures["m.b8.speculative_vs_plain"] == 3.0
    assert figures["m.b8.speculative_vs_generate"] == 6.0
    assert figures["m.b8.t0.2.ngram/goodput.vs_plain"] == 1.5


def test_the_best_temperature_counts() -> None:
    known = {"m.b8.speculative_vs_plain": 5.0, "m.b8.plain_vs_generate": 1.0}
    figures = _figures("m", 8, 0.8, MEASURED, known)
    assert figures["m.b8.speculative_vs_plain"] == 5.0
    assert figures["m.b8.plain_vs_generate"] == 2.0
    assert figures["m.b8.t0.8.speculative_vs_plain"] == 3.0


def test_a_policy_is_held_against_the_best_fixed_length() -> None:
    measured = speeds(none=[10, 10], sibling__goodput=[27, 27], sibling__fixed_k2=[20, 20], sibling__fixed_k4=[30, 30])
    figures = _figures("m", 1, 0.2, measured, {})
    assert figures["m.b1.t0.2.sibling/goodput.vs_best_fixed"] == 0.9
    assert "m.b1.t0.2.sibling/fixed:4.vs_best_fixed" not in figures


def test_an_arm_that_was_not_asked_for_leaves_no_figure() -> None:
    figures = _figures("m", 1, 0.2, speeds(none=[10], sibling__bass=[20]), {})
    assert not [name for name in figures if "generate" in name or "assisted" in name]
