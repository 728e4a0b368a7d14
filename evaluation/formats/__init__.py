"""Formats of dataset files: one module each, which tells its records and makes tasks of them; `registry` lists them."""
