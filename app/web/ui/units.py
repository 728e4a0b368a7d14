"""Numbers as text: durations, shares, counts, dates. A dash stands for an unknown value.

JSON and CSV hold exact numbers.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

UNKNOWN = "–"


def format_seconds(value: float | None) -> str:
    """A duration as read: `22 ms`, `0.35 s`, `12.4 s`, `2 min 5 s`."""
    if value is None:
        return UNKNOWN
    if value >= 120:
        minutes, rest = divmod(round(value), 60)
        if minutes >= 120:
            return f"{minutes // 60} h {minutes % 60} min"
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if value == round(value, 1):  # a chosen value rather than a measured one
        return f"{value:g} s"
    if value < 0.1:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def format_exact_seconds(value: float) -> str:
    """A budget with all its digits, because figures at it hold at no other: `7 s`, `7.125 s`, `2 min 5 s`."""
    return format_seconds(value) if value >= 120 and value == round(value) else f"{format_exact(value)} s"


def format_exact(value: float) -> str:
    """A number with all its digits, as fields and addresses hold it: `7`, `7.125`."""
    return repr(float(value)).removesuffix(".0")


def format_brief_seconds(value: float) -> str:
    """A duration in seconds without its unit, for narrow cells: `0.35`, `2.3`, `12`."""
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def count_decimals(of: int) -> int:
    """Decimals of a share of `of` things in per cent: one for more than 100 of them, else none.

    Shares of up to 100 things lie a whole per cent or more apart, so that whole per cents tell all of them apart and a
    decimal would claim more than was measured. `of` is 0 for shares that count no things, such as a limit or a load.
    """
    return 1 if of > 100 else 0


def format_share(share: float, of: int = 0) -> str:
    """A share of `of` things in per cent without its unit: `43`, or of more than 100 `43.2`."""
    return f"{100 * share:.{count_decimals(of)}f}"


def format_percent(share: float | None, of: int = 0) -> str:
    """The same with its unit: `43 %`, `43.2 %`."""
    return UNKNOWN if share is None else f"{format_share(share, of)} %"


def format_utilization(share: float | None) -> str:
    """A share of what a device can do, often below one per cent: `0.4 %`."""
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def format_interval(bounds: Sequence[float], of: int = 0) -> str:
    """The interval of a share of `of` things: `34 to 52`, or of more than 100 `33.9 to 52.1`."""
    return " to ".join(format_share(bound, of) for bound in bounds)


def format_p_value(p: float) -> str:
    """A p-value as read in a sentence: `p = 0.016`, or `p < 0.001`."""
    return f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"


def format_points(share: float, of: int = 0) -> str:
    """A difference of shares of `of` things in percentage points, with its sign: `+2`, or of more than 100 `−0.6`."""
    text = f"{100 * share:+.{count_decimals(of)}f}".replace("-", "−")
    return text[1:] if float(text[1:]) == 0 else text


def format_unsigned_points(share: float, of: int = 0) -> str:
    """The same without its sign."""
    return format_share(abs(share), of)


def format_integer(value: float | None) -> str:
    """An integer with thin spaces between thousands."""
    return UNKNOWN if value is None else f"{value:,.0f}".replace(",", "\u202f")


def format_count(number: int, noun: str) -> str:
    """A number with its noun in the singular or the regular plural: `1 task`, `12 tasks`, `2 studies`."""
    plural = re.sub(r"(?<=[^aeiou])y$", "ie", noun) + "s"
    return f"{format_integer(number)} {noun if number == 1 else plural}"


def join_first(names: Sequence[str], number: int) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - number} more" if len(names) > number else ""
    return f"{', '.join(names[:number])}{more}"


def format_decimal(value: float | None, digits: int = 2) -> str:
    """A number with a fixed number of decimals."""
    return UNKNOWN if value is None else f"{value:.{digits}f}".replace("-", "−")


def format_milliseconds(value: float | None) -> str:
    """Milliseconds with three significant digits below a hundred."""
    return UNKNOWN if value is None else (f"{value:.0f}" if value >= 100 else f"{value:.3g}")


def format_ordinal(number: int) -> str:
    """An ordinal: `1st`, `2nd`, `13th`."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def format_time(value: dt.datetime | None) -> str:
    """A time as `2026-11-21 10:49 UTC`."""
    return UNKNOWN if value is None else value.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


FILTERS = {
    "seconds": format_seconds,
    "bare_percent": format_share,
    "percent": format_percent,
    "interval": format_interval,
    "points": format_points,
    "unsigned_points": format_unsigned_points,
    "p_value": format_p_value,
    "exact": format_exact,
    "exact_seconds": format_exact_seconds,
    "integer": format_integer,
    "counted": format_count,
    "decimal": format_decimal,
    "milliseconds": format_milliseconds,
    "ordinal": format_ordinal,
    "when": format_time,
}
"""What templates use, by the name of the filter."""
