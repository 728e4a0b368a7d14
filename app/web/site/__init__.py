"""Pages that belong to no domain."""
