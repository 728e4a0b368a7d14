"""Time-ordered identifiers (UUIDv7, RFC 9562), so that keyset pagination over ids follows creation."""

from __future__ import annotations

import os
import time
import uuid


def new_id() -> uuid.UUID:
    """A UUIDv7: 48 bits of Unix milliseconds, 12 bits of their fraction (section 6.2, method 3), then 62 random bits.

    The fraction orders the ids that a process makes within one millisecond.
    """
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 2**12 // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") >> 2
    return uuid.UUID(int=(milliseconds & (2**48 - 1)) << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | random)
