"""A Python project as a dataset: tasks from its functions, tests from their behaviour while the project's tests ran."""
