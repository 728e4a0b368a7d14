"""Runs side by side at a budget."""
