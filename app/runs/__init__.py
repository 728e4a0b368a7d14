"""Runs: from the wish to the figures."""
