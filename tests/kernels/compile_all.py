"""Compile every kernel for sm_90, which needs no GPU; print for each its shared memory and matrix instructions."""

from __future__ import annotations

from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels import accept, kv_scatter, verify_attention

F32, I64, I32, BF16 = "*fp32", "*i64", "*i32", "*bf16"


def compile_for_h100(kernel: Any, constants: dict[str, Any], types: dict[str, str], **options: Any) -> None:
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={name: "constexpr" if name in constants else types.get(name, "i32") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, **options})
    dot = next((name for name in ("wgmma", "mma.sync") if name in built.asm["ptx"]), "no dot")
    print(kernel.fn.__name__, f"{built.metadata.shared} bytes of shared memory,", dot)


ATTEND = {"out_ptr": F32, "lse_ptr": F32, "q_ptr": BF16, "k_ptr": BF16, "v_ptr": BF16, "query_start_ptr": I32,
          "count_ptr": I32, "length_ptr": I32, "position_ptr": I64, "scale": "fp32", "cap_log2": "fp32"}  # fmt: skip
for block_m, windowed in ((16, False), (64, True)):
    flags = {"WINDOWED": windowed, "CAPPED": windowed, "PADDED": False, "UPCAST": False}
    sizes = {"N_HEADS": 32, "GROUP": 4, "D": 128, "BLOCK_M": block_m, "BLOCK_N": 64, "BLOCK_D": 128}
    compile_for_h100(verify_attention._attend, sizes | flags, ATTEND, num_stages=3)
merge = {"D": 128, "BLOCK_P": 16, "BLOCK_D": 128}
compile_for_h100(verify_attention._merge, merge, {"merged_ptr": BF16, "out_ptr": F32, "lse_ptr": F32})
scatter = dict.fromkeys(("keys_ptr", "values_ptr", "new_keys_ptr", "new_values_ptr"), BF16)
scatter |= {"row_ptr": I64, "position_ptr": I64}
compile_for_h100(kv_scatter._scatter, {"N_HEADS": 8, "D": 128, "BLOCK": 1024}, scatter)
integers = ("accepted", "emitted", "ids", "dist_row", "position", "draft", "seeds", "q_ids")
pointers = {f"{name}_ptr": I64 for name in integers} | {"logp_ptr": F32, "q_logp_ptr": F32}
for coupled in (True, False):
    rule = {"COUPLED": coupled, "HAS_Q": not coupled, "ACCEPT_OFFSET": 1, "DRAW_OFFSET": 2, "N_BISECT": 7, "BLOCK": 64}
    compile_for_h100(accept._accept, rule, pointers)
