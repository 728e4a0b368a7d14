"""What the work of an engine costs in seconds, as measured so far."""
