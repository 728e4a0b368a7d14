"""Reads the path data of charts."""

from __future__ import annotations

import re


def corners(d: str) -> list[tuple[float, float]]:
    """The points of a path of lines, horizontal and vertical ones included."""
    found: list[tuple[float, float]] = []
    for command, numbers in re.findall(r"([MLHV]) *([-\d. ]+)", d):
        values = [float(number) for number in numbers.split()]
        x, y = found[-1] if found else (0.0, 0.0)
        found.append({"H": (values[0], y), "V": (x, values[0])}.get(command) or (values[0], values[1]))
    return found
