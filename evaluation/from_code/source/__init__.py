"""A project's source: its modules and functions, their dependencies, their origin, and duplicates."""
