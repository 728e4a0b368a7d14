"""Where there is no GPU, Triton's kernels run in its interpreter; Triton reads this when a kernel is defined."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
