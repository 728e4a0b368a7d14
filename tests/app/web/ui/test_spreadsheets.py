"""A table for a spreadsheet: whatever a name is, it is a text there."""

from __future__ import annotations

import csv
import io

from app.web.ui.tables import as_csv


def test_text_that_looks_like_a_formula_is_quoted_and_numbers_are_not():
    given = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "a=b", 'a "quoted", b', -1, 0.5, None]
    (read,) = csv.reader(io.StringIO(as_csv([given]), newline=""))
    assert read == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "a=b", 'a "quoted", b', "-1", "0.5", ""]
