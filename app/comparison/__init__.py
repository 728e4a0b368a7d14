"""Two runs over the same dataset, side by side."""
