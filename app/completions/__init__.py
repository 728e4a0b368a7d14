"""Prompts, n samples, a budget."""
