"""A Python project as a dataset: tasks from its functions, judged by recorded calls or by the project's own tests."""
