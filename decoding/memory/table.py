"""The pages of each row, where attention reads them: one tensor that stays in place, so that graphs may read it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from kernels.upload import upload


class PageTable:
    """Page numbers of each row, int32 [rows, width], 0 past a row's last page.

    On a CPU the host writes into the tensor itself; on a GPU `sync` sends what has changed, without waiting.
    """

    def __init__(self, n_rows: int, width: int, device: torch.device) -> None:
        self.host = np.zeros((n_rows, width), dtype=np.int32)
        self._on_host = device.type == "cpu"
        self.pages = (
            torch.from_numpy(self.host)
            if self._on_host
            else torch.zeros(n_rows, width, dtype=torch.int32, device=device)
        )
        self._changed: set[int] = set()
        self._n_pages = [0] * n_rows

    def write(self, row: int, pages: Sequence[int], first: int = 0) -> None:
        """Let a row have `pages`, of which the ones before `first` are there already."""
        n, before = len(pages), self._n_pages[row]
        self._n_pages[row] = n
        if n > first:
            self.host[row, first:n] = pages[first:]
        if before > n:
            self.host[row, n:before] = 0
        if not self._on_host:
            start = row * self.host.shape[1]
            self._changed.update(range(start + first, start + max(n, before)))

    def sync(self) -> None:
        """Send what has changed to the device."""
        if self._changed:
            at = np.fromiter(self._changed, dtype=np.int64, count=len(self._changed))
            self._changed.clear()
            there = upload(torch.from_numpy(np.stack([at, self.host.reshape(-1)[at]])), self.pages.device)
            self.pages.view(-1).index_copy_(0, there[0], there[1].int())
