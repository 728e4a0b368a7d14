"""Recorded texts that another process or another day would write otherwise: addresses of objects, the present date."""

from __future__ import annotations

import calendar
import datetime as dt
import json
import re
from collections.abc import Iterator
from functools import lru_cache

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,16}\b")
_IDENTITY = re.compile(r"(?<![\w.])(?:1(?:39|40)\d{12}|9[345]\d{12}|281[34]\d{11})(?!\w)")
"""What id() gives on Linux: addresses of the heap and of mapped memory, on x86-64 and on ARM."""
_NUMBER = re.compile(r"(?<![\w.])1\d{9}(?:\d{3}){0,3}(?![\w])")
_BYTES = re.compile(r'\{"bytes":"((?:[0-9a-f]{2})+)"\}')
_BYTEARRAY = re.compile(r'"builtins:bytearray",\[null,(\[[0-9,]+\])')
_DAYS = 2
"""Days around the present one that count as present: tests use yesterday and tomorrow, in any time zone."""
_DAY_S = 86_400


def is_volatile(text: str, now: dt.datetime | None = None) -> bool:
    """Whether a written value (`recording.values`) holds an address, the present date, or the present time in seconds
    or parts of it."""
    now = now or dt.datetime.now()
    marks, dates = _compile_dates(now.date())
    for part in (text, *_decode_bytes(text)):
        if (
            _ADDRESS.search(part)
            or _IDENTITY.search(part)
            or (any(mark in part for mark in marks) and dates.search(part))
        ):
            return True
        if any(_is_present(number, now.timestamp()) for number in _NUMBER.findall(part)):
            return True
    return False


def _decode_bytes(text: str) -> Iterator[str]:
    """The texts in bytes and bytearrays, which are written as numbers."""
    for digits in _BYTES.findall(text):
        yield bytes.fromhex(digits).decode("latin-1")
    for numbers in _BYTEARRAY.findall(text):
        yield "".join(map(chr, json.loads(numbers)))


def _is_present(number: str, seconds: float) -> bool:
    """Whether the digits count seconds, or thousandths and so on, since 1970 until about now."""
    return abs(int(number[:10]) - seconds) <= _DAYS * _DAY_S


@lru_cache(maxsize=2)
def _compile_dates(today: dt.date) -> tuple[frozenset[str], re.Pattern[str]]:
    """The forms of the days around today, in texts and as the parts of a date; a text without one of the marks, which
    are found faster, has none of them."""
    days = [today + dt.timedelta(days=days) for days in range(-_DAYS, _DAYS + 1)]
    marks = {mark for day in days for mark in (str(day.year), calendar.month_abbr[day.month])}
    return frozenset(marks), re.compile("|".join(form for day in days for form in _list_forms(day)))


def _list_forms(day: dt.date) -> list[str]:
    year, month, date = f"{day.year}", f"0?{day.month}", f"0?{day.day}"
    short = calendar.month_abbr[day.month]
    name = f"{short}(?:{calendar.month_name[day.month].removeprefix(short)})?"
    no_other_year = rf"(?!,?[ -](?!{year})\d{{4}})"
    return [
        rf"\[{day.year},{day.month},{day.day}\b",  # of a date, or of a tuple
        rf"(?<!\d){day:%Y%m%d}(?!\d)",
        rf"(?<!\d){year}[-/.]{month}[-/.]{date}(?!\d)",
        rf"(?<!\d)(?:{month}[-/.]{date}|{date}[-/.]{month})[-/.]{year}(?!\d)",
        rf"(?<!\d){date}[ -]{name}\b{no_other_year}",
        rf"\b{name}\.?[ -]{date}(?!\d){no_other_year}",
    ]
