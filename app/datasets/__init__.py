"""Datasets and their tasks."""
