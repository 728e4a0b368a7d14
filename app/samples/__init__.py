"""What the models wrote."""
