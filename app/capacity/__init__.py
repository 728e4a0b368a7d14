"""Load tests: what quality a service keeps when many requests arrive (`bassline bench load`)."""
