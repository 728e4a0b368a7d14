"""Samples: the texts of the models, with timings and verdicts."""
