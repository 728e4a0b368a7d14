"""Presentation of stored values: units, verdicts, charts, safe text."""
