"""Detects gVisor."""

from __future__ import annotations

import ctypes

_READ_ALL = 3


def inside_gvisor() -> bool:
    """Return whether the kernel is gVisor: its log, which any process may read, names it."""
    text = ctypes.create_string_buffer(16384)
    length = ctypes.CDLL(None).klogctl(_READ_ALL, text, len(text))
    return length > 0 and b"gVisor" in text.raw[:length]
