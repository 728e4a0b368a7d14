"""Two or more runs over the same tasks in one chart, paired by task; two runs are compared in detail."""
