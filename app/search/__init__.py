"""Search over the samples of all runs that lists show."""
