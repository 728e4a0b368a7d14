"""The scripts that measure on a GPU run from end to end on a CPU, at shapes too small to mean anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import gpu, kernels
from decoding.models import fp8

pytest.importorskip("triton")


@pytest.mark.thorough
@pytest.mark.slow
def test_the_gpu_benchmark_checks_and_reports_every_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fp8, "require_gain", lambda *_: None)  # shapes too small to gain
    file = tmp_path / "gpu.json"
    assert gpu.main(["--tiny", "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert report["figures"].keys() > {"copy_gb_per_s", "matmul_tflop_per_s", "b2.c32.t4.ragged_of_copy"}
    assert {row["arm"] for row in report["rows"] if "arm" in row} == {
        "plain",
        "fp8 plain",
        "fp8 accept 0.8, k 2",
        "accept 0.8, k 2",
        "transformers generate",
    }


def test_the_draft_model_of_the_benchmark_is_right_about_the_share_asked_for() -> None:
    options = gpu._parse_options(["--tiny"])
    model = gpu._build_model(gpu.TINY, options, torch.float32, torch.device("cpu"), 0.7).model
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        said = model(torch.arange(1, 512)[None]).logits[0].argmax(dim=1)
    share = (said == (torch.arange(1, 512) + 1) % 512).double().mean()
    assert abs(share - 0.7) < 0.06


def test_a_wrong_kernel_is_reported_and_nothing_is_measured(monkeypatch, capsys) -> None:
    monkeypatch.setitem(kernels.TRITON, "ragged", lambda q, k, v, rows, scale: torch.zeros_like(q))
    assert kernels.main(["--tiny"]) == 1
    assert "a kernel is wrong: nothing was measured" in capsys.readouterr().err
