"""How stored things are shown: units, verdicts, charts, safe text."""
