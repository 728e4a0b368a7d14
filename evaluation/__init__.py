"""Tasks, prompts, extraction, sandbox, grading, metrics and statistics: from a task to figures that can be trusted."""
