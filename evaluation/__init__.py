"""Tasks, prompts, extraction, sandbox, grading, metrics and statistical inference. Knows no torch and no database."""
