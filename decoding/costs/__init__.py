"""What the work of an engine takes: measured before the first request, and learnt from each piece of work."""
