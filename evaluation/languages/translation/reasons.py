"""Why a task cannot be translated."""

from __future__ import annotations


class LeftOutError(Exception):
    """The task is left out; the message is the reason in a few words, the same for all tasks that it applies to."""
