"""The processes that do the work."""
