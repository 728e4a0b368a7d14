"""The figures of `bassline bench decode` are ratios taken prompt by prompt, the best speculative arm's first."""

from benchmarks._decode_figures import figures as _figures
from benchmarks._identity import identity
from benchmarks._speed import Speed
from decoding.request import Completion, Sample


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


def test_8_bit_weights_are_held_against_dense_ones_and_drafts_against_plain_decoding_with_the_same_weights() -> None:
    measured = speeds(none=[10, 10], sibling__goodput=[20, 20])
    measured |= {"int8:none": [Speed(16, 1.0)] * 2, "int8:sibling/goodput": [Speed(48, 1.0)] * 2}
    figures = _figures("m", 1, 0.2, measured, {})
    assert figures["m.b1.int8_vs_bf16_plain"] == 1.6
    assert figures["m.b1.speculative_vs_plain"] == 2.0
    assert figures["m.b1.int8_speculative_vs_plain"] == 3.0


def written(*samples: list[int]) -> Speed:
    return Speed(1, 1.0, Completion([Sample(i, 0, token_ids=ids) for i, ids in enumerate(samples)], 1, [], 0.0, 1.0))


def test_identity_counts_samples_alike_by_the_kind_of_weights() -> None:
    cell = {
        "none": [written([1, 2], [3])],
        "sibling/goodput": [written([1, 2], [4])],
        "sibling/goodput/maximal": [written([9], [9])],
        "generate": [Speed(1, 1.0)],
        "int8:none": [written([5], [6])],
        "int8:sibling/goodput": [written([5], [6])],
    }
    assert identity([cell, {"none": [written([1])], "ngram/goodput": [written([1])]}]) == {
        "identity.bf16_plain_vs_speculative": 2 / 3,
        "identity.int8_plain_vs_speculative": 1.0,
    }
    assert identity([{"none": [written([1])]}]) == {}


def test_plain_decoding_is_held_against_llama_cpp_and_speculation_against_the_best_peer() -> None:
    measured = speeds(none=[10, 10], sibling__goodput=[60, 60], generate=[5, 5])
    measured |= {"int8:none": speed_of(18), "@llamacpp": speed_of(20), "@vllm": speed_of(15)}
    figures = _figures("m", 8, 0.2, measured, {})
    assert figures["m.b8.plain_vs_llamacpp"] == 0.9
    assert figures["m.b8.speculative_vs_best_peer"] == 3.0


def speed_of(rate: int) -> list[Speed]:
    return [Speed(rate, 1.0)] * 2
