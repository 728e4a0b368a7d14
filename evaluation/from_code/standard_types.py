"""The attributes of common types of Python: a name that they have says nothing about a project."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import pathlib
import re
import threading
import types

_STANDARD_TYPES = (
    object, str, bytes, int, float, list, dict, set, tuple, type, BaseException, OSError, io.BytesIO, io.StringIO,
    re.Pattern, re.Match, collections.Counter, collections.OrderedDict, collections.deque, datetime.datetime,
    datetime.timedelta, datetime.tzinfo, pathlib.Path, decimal.Decimal, fractions.Fraction, threading.Thread,
    threading.Condition, type(threading.Lock()), types.FunctionType, types.ModuleType, types.CodeType,
)  # fmt: skip
STANDARD_ATTRIBUTE_NAMES = frozenset(name for kind in _STANDARD_TYPES for name in dir(kind))
