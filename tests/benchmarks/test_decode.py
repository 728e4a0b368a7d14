"""The figures of `bassline bench decode` are ratios taken prompt by prompt, the best speculative arm's first."""

from benchmarks._arms import Speed
from benchmarks._decode_figures import build_rows, compute_figures
from decoding.request import Completion, Sample


def speeds(**rates: list[float]) -> dict[str, list[Speed]]:
    return {arm.replace("__", "/").replace("_k", ":"): [Speed(int(r), 1.0) for r in of] for arm, of in rates.items()}


MEASURED = speeds(generate=[10, 20, 40], none=[20, 40, 80], ngram__goodput=[40, 60, 80], sibling__goodput=[60, 80, 240])


def test_the_best_arm_counts_by_the_median_of_its_ratios() -> None:
    figures = compute_figures("m", 8, 0.2, MEASURED, {})
    assert figures["m.b8.plain_vs_generate"] == 2.0
    assert figures["m.b8.speculative_vs_plain"] == 3.0
    assert figures["m.b8.speculative_vs_generate"] == 6.0
    assert figures["m.b8.t0.2.ngram/goodput.vs_plain"] == 1.5


def test_the_best_temperature_counts() -> None:
    known = {"m.b8.speculative_vs_plain": 5.0, "m.b8.plain_vs_generate": 1.0}
    figures = compute_figures("m", 8, 0.8, MEASURED, known)
    assert figures["m.b8.speculative_vs_plain"] == 5.0
    assert figures["m.b8.plain_vs_generate"] == 2.0
    assert figures["m.b8.t0.8.speculative_vs_plain"] == 3.0


def test_an_arm_that_was_not_asked_for_leaves_no_figure() -> None:
    figures = compute_figures("m", 1, 0.2, speeds(none=[10], sibling__bass=[20]), {})
    assert not [name for name in figures if "generate" in name]


def test_8_bit_weights_are_held_against_dense_ones_and_drafts_against_plain_decoding_with_the_same_weights() -> None:
    measured = speeds(none=[10, 10], sibling__goodput=[20, 20])
    measured |= {"int8:none": [Speed(16, 1.0)] * 2, "int8:sibling/goodput": [Speed(48, 1.0)] * 2}
    figures = compute_figures("m", 1, 0.2, measured, {})
    assert figures["m.b1.int8_vs_bf16_plain"] == 1.6
    assert figures["m.b1.speculative_vs_plain"] == 2.0
    assert figures["m.b1.int8_speculative_vs_plain"] == 3.0


def test_plain_decoding_is_held_against_llama_cpp_and_speculation_against_the_best_peer() -> None:
    measured = speeds(none=[10, 10], sibling__goodput=[60, 60], generate=[5, 5])
    measured |= {"int8:none": speed_of(18), "@llamacpp": speed_of(20), "@vllm": speed_of(15)}
    figures = compute_figures("m", 8, 0.2, measured, {})
    assert figures["m.b8.plain_vs_llamacpp"] == 0.9
    assert figures["m.b8.speculative_vs_best_peer"] == 3.0


def speed_of(rate: int) -> list[Speed]:
    return [Speed(rate, 1.0)] * 2


def test_texts_that_differ_from_plain_decoding_are_counted() -> None:
    measured = {arm: [Speed(2, 1.0, completion_of(*texts))] for arm, texts in TEXTS.items()}
    counted = {row["arm"]: row["other texts"] for row in build_rows("m", 2, 0.8, measured)}
    assert counted == {"none": "-", "sibling/goodput": 1, "int8:none": "-", "int8:sibling/goodput": 0}


TEXTS = {
    "none": ("a", "b"),
    "sibling/goodput": ("a", "c"),
    "int8:none": ("a", "d"),
    "int8:sibling/goodput": ("a", "d"),
}


def completion_of(*texts: str) -> Completion:
    samples = [
        Sample(
            index=i, seed=0, text=text, token_ids=[1], logprobs=[-0.1], origins=["draft"], ends=[1],
            finish_reason="stop", first_token_s=0.1, finished_s=1.0, n_rounds=1, n_drafted=1, n_accepted=1,
        )
        for i, text in enumerate(texts)
    ]  # fmt: skip
    return Completion(samples, 1, [], 0.1, 1.0)
