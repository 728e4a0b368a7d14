"""Any number of runs over the same tasks, laid over each other, and task by task in a matrix."""
