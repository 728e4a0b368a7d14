"""Targets that another server decodes."""
