"""A project's source: its modules and functions, what a function needs, where it comes from, what is there twice."""
