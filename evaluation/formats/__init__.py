"""Formats of dataset files: one module each, which recognizes and reads its records; `registry` lists them."""
