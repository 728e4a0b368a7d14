"""Products with 8-bit weights are what their reference computes, and a row's bits do not depend on the others."""

from __future__ import annotations

import pytest
import torch

from kernels import byte_matmul, check, quantize_rows, reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def build_product(n: int, k: int, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Returns x [40, k], and the weight, scale and bias of n outputs."""
    values, scale = reference.quantize_rows(torch.randn(n, k, device=device) / k**0.5)
    return torch.randn(40, k, device=device).to(dtype), values, scale[:, 0], torch.randn(n, device=device).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(48, 256), (33, 131), (16, 20)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_the_product_is_its_references_with_tails_and_without(n, k, has_bias, dtype, device) -> None:
    x, weight, scale, bias = build_product(n, k, dtype, device)
    for m in (1, 3, 8, 17):
        arguments = (x[:m], weight, scale, bias if has_bias else None)
        found = byte_matmul.byte_matmul(*arguments)
        assert (found.shape, found.dtype) == ((m, n), dtype)
        torch.testing.assert_close(
            found, reference.byte_matmul(*arguments), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_has_the_same_bits_whatever_it_is_multiplied_with(dtype, device) -> None:
    x, *others = build_product(70, 300, dtype, device)
    together = byte_matmul.byte_matmul(x, *others)
    for start, m in ((0, 1), (39, 1), (5, 3), (0, 8), (1, 17), (3, 33)):
        alone = byte_matmul.byte_matmul(x[start : start + m], *others)
        assert torch.equal(alone, together[start : start + m]), (start, m)


def test_every_byte_is_the_number_that_pytorch_reads(device) -> None:
    every = torch.arange(256, dtype=torch.uint8, device=device)
    weight = every[(every & 0x7F) != 0x7F].view(torch.float8_e4m3fn)[:, None]  # all but the two NaN
    one, scale = torch.ones(1, 1, device=device), torch.ones(len(weight), device=device)
    assert torch.equal(byte_matmul.byte_matmul(one, weight, scale, None)[0], weight[:, 0].float())


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_rounded_as_pytorch_rounds_them(dtype, device) -> None:
    x = (torch.randn(12, 300, device=device) * torch.logspace(-3, 3, 12, device=device)[:, None]).to(dtype)
    x[2], x[5, ::7] = 0, 0.1 * x[5, ::7]
    for found, right in zip(quantize_rows.quantize_rows(x), reference.quantize_rows(x), strict=True):
        assert (found.shape, found.dtype) == (right.shape, right.dtype)
        assert torch.equal(found.float(), right.float())


@pytest.mark.parametrize("module", [byte_matmul, quantize_rows])
def test_a_wrong_kernel_is_found_before_it_is_used(module, device, monkeypatch) -> None:
    assert check.check_bytes(torch.float32, device) is None
    name = module.__name__.rpartition(".")[2]
    right = getattr(module, name)

    def compute_wrongly(*arguments):
        found = right(*arguments)
        return (found[0], found[1] * 1.1) if isinstance(found, tuple) else found * 1.1

    monkeypatch.setattr(module, name, compute_wrongly)
    assert str(check.check_bytes(torch.float32, device)).startswith("differs from its reference by ")
