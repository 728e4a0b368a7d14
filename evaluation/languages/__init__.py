"""Languages other than Python: types, cases as data, drivers, and one folder for each language (docs/languages.md)."""
