"""Statistics of a study: several configurations (arms) over the same tasks. Pure functions of stored samples."""
