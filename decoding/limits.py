"""Limits that every part of the engine shares."""

MAX_DRAFT_LENGTH = 32
"""The most tokens a row may draft in a round: the limit of BASS (arXiv 2404.15778, Algorithm 1)."""
MAX_SERVED = 48
"""Samples that an engine serves at once, or `max_batch` if more; with graphs that alone."""
