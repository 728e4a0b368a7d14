"""Attention over a pool of pages on a CPU, in C: native_attention.c, compiled on the machine that runs it.

PyTorch's attention takes rectangles: it pads each row to the longest draft, wants a mask, and its sums take an order
that depends on how many slots are read, which is not the same on all CPUs. This kernel reads the packed tokens as they
are, each row as far as it goes, and a token's result is the same bits whatever is verified with it and whatever pages
its row is in. It takes about half the time (docs/decoding-speed.md).

The compiled library is in `kernels/` of the cache, named by the hash of everything that it depends on.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

from kernels.availability import KernelError
from kernels.cache import cache_folder
from kernels.rows import RaggedRows

_SOURCE = Path(__file__).with_suffix(".c")
_DEFINES = {torch.bfloat16: "-DBFLOAT16", torch.float32: "-DFLOAT32"}
_PAGE_MULTIPLE = 16  # tokens: a vector of float32 has 8 or 16 lanes
_MAX_DIM = 256  # of a head: each thread keeps a block of keys and values of this width on its stack
_FLAGS = (
    *("-std=gnu11", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fPIC"),
    f"-DMAX_DIM={_MAX_DIM}",
)
_COMPILE_S = 120


class _Strides(ctypes.Structure):
    _fields_ = (("outer", ctypes.c_int64), ("head", ctypes.c_int64), ("slot", ctypes.c_int64))


class _Problem(ctypes.Structure):
    """`problem` of the C source."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "out")),
        *((name, _Strides) for name in ("key", "value", "query", "result")),
        *((name, ctypes.c_void_p) for name in ("start", "count", "length", "page_table", "position", "sinks")),
        *((name, ctypes.c_int32) for name in ("n_rows", "n_kv", "group", "dim", "value_dim", "max_count")),
        *((name, ctypes.c_int32) for name in ("n_pages", "page_size", "page_table_stride", "window")),
        *((name, ctypes.c_float) for name in ("scale", "softcap")),
    )


def attend_native(
    q: torch.Tensor,  # [N, Hq, D]
    k: torch.Tensor,  # [P, Hkv, page_size, D]
    v: torch.Tensor,  # [P, Hkv, page_size, Dv]
    rows: RaggedRows,
    scale: float,
    window: int | None = None,
    *,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,  # [Hq]
) -> torch.Tensor:
    """Return [N, Hq, Dv]: each token attends to its row's keys up to its position in `rows`.

    Pages have a multiple of 16 tokens. Raises `KernelError` where it cannot be compiled, and for types and sizes that
    it does not have.
    """
    N, Hq, D = q.shape
    _, Hkv, page_size, Dv = v.shape
    table = rows.pages
    R, n_pages = table.shape
    assert q.dtype == k.dtype == v.dtype, "queries, keys and values differ in type"
    assert table.dtype == torch.int32
    assert k.stride(3) == v.stride(3) == table.stride(1) == 1
    assert k.shape[2] == page_size == rows.page_size
    if page_size % _PAGE_MULTIPLE:
        raise KernelError(f"its pages have {page_size} tokens, and the kernel takes multiples of {_PAGE_MULTIPLE}")
    if max(D, Dv) > _MAX_DIM:
        raise KernelError(f"its heads have {max(D, Dv)} numbers, and the kernel takes {_MAX_DIM} at most")
    q = q if q.stride(-1) == 1 else q.contiguous()
    out = q.new_empty(N, Hq, Dv)
    sinks_f32 = None if sinks is None else sinks.float().contiguous()
    problem = _Problem(
        q=q.data_ptr(),
        k=k.data_ptr(),
        v=v.data_ptr(),
        out=out.data_ptr(),
        key=_Strides(*k.stride()[:3]),
        value=_Strides(*v.stride()[:3]),
        query=_Strides(*q.stride()[:2]),
        result=_Strides(*out.stride()[:2]),
        start=rows.query_start.data_ptr(),
        count=rows.count.data_ptr(),
        length=rows.length.data_ptr(),
        page_table=table.data_ptr(),
        position=rows.position.data_ptr(),
        sinks=None if sinks_f32 is None else sinks_f32.data_ptr(),
        n_rows=R,
        n_kv=Hkv,
        group=Hq // Hkv,
        dim=D,
        value_dim=Dv,
        max_count=rows.max_count,
        n_pages=n_pages,
        page_size=page_size,
        page_table_stride=table.stride(0),
        window=window or 0,
        scale=scale,
        softcap=softcap or 0.0,
    )
    if load_library(q.dtype).attend(ctypes.byref(problem)):
        raise MemoryError("the native attention has no memory for the parts of a long row")
    return out


def write_kv(
    keys: torch.Tensor,  # [P, Hkv, page_size, D], the pool
    values: torch.Tensor,  # [P, Hkv, page_size, Dv], the pool
    new_keys: torch.Tensor,  # [N, Hkv, D]
    new_values: torch.Tensor,  # [N, Hkv, Dv]
    slot: torch.Tensor,  # int64 [N], page * page_size + offset
) -> None:
    """Write each token's keys and values to its slot, as `kv_scatter` does on a GPU; skip slots outside the pool."""
    assert slot.dtype == torch.int64
    assert slot.is_contiguous()
    for pool, new in ((keys, new_keys), (values, new_values)):
        N, H, D = new.shape
        n_pages, _, page_size, _ = pool.shape
        assert len(slot) == N
        assert (pool.shape[1], pool.shape[3], pool.dtype) == (H, D, new.dtype)
        assert pool.stride(3) == 1
        states = new if new.stride(-1) == 1 else new.contiguous()
        size = pool.element_size()
        load_library(pool.dtype).scatter(
            ctypes.c_void_p(pool.data_ptr()),
            ctypes.c_void_p(states.data_ptr()),
            ctypes.c_void_p(slot.data_ptr()),
            *map(ctypes.c_int64, (n_pages * page_size, page_size, N, H, D * size)),
            *(ctypes.c_int64(stride * size) for stride in (*pool.stride()[:3], *states.stride()[:2])),
        )


def require_native(device: torch.device) -> None:
    """Raise `KernelError` unless `device` is a CPU for which the kernel is compiled or can be."""
    if device.type != "cpu":
        raise KernelError(f"the native attention is for CPUs, and the device is {device.type}: use attention auto")
    for dtype in _DEFINES:
        load_library(dtype)


@cache
def load_library(dtype: torch.dtype) -> ctypes.CDLL:
    """Return the compiled kernel for a type of numbers, compiled now if it was not before. Raises `KernelError`."""
    if dtype not in _DEFINES:
        raise KernelError(f"the native attention has no {str(dtype).removeprefix('torch.')}")
    built = cache_folder() / "kernels" / f"native_attention-{_hash_build(dtype)}.so"
    try:
        return ctypes.CDLL(str(built))
    except OSError:  # it is not there yet, or damaged
        pass
    try:
        _compile(dtype, built)
        return ctypes.CDLL(str(built))
    except OSError as error:
        raise KernelError(f"the native attention cannot be compiled or loaded: {error}") from error


def _compile(dtype: torch.dtype, built: Path) -> None:
    """Compile into a folder beside `built`, and move the library there when it is whole."""
    compiler = _find_compiler()
    if compiler is None:
        raise KernelError("the native attention needs a C compiler: install gcc, or use attention sdpa")
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as folder:
        compiled, linked = Path(folder, "native.o"), Path(folder, "native.so")
        # Linked without OpenMP's library: its functions are found in the one that PyTorch has loaded, so that there is
        # one pool of threads.
        for command in (
            [compiler, *_FLAGS, *_get_openmp_flags(), _DEFINES[dtype], "-c", str(_SOURCE), "-o", str(compiled)],
            [compiler, "-shared", str(compiled), "-o", str(linked), "-lm"],
        ):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
            except subprocess.TimeoutExpired as error:
                raise KernelError(f"the native attention was not compiled within {_COMPILE_S} s") from error
            if done.returncode:
                why = next(iter(done.stderr.strip().splitlines()), f"exit status {done.returncode}")
                raise KernelError(f"the native attention does not compile with {compiler}: {why}")
        linked.replace(built)


def _find_compiler() -> str | None:
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def _get_openmp_flags() -> tuple[str, ...]:
    """Return the flag that lets the kernel use PyTorch's threads; empty if PyTorch's OpenMP is not visible."""
    return ("-fopenmp",) if hasattr(ctypes.CDLL(None), "GOMP_parallel") else ()


def _hash_build(dtype: torch.dtype) -> str:
    """Return the hash of the source, the flags and this kind of CPU."""
    parts = (_SOURCE.read_text(), *_FLAGS, *_get_openmp_flags(), _DEFINES[dtype], platform.machine(), _describe_cpu())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _describe_cpu() -> str:
    """Return the name and the instructions of the CPU: a cache may be shared by machines of several kinds."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(next((line for line in lines if line.startswith(field)), "") for field in ("model name", "flags"))
