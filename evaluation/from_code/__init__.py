"""A Python project as a dataset: tasks from its functions, tests from what they did while the project's tests ran."""
