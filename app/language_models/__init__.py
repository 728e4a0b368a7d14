"""Language models that runs can name."""
