"""A model's forward over many rows of different lengths: cache, layout, attention backends, CUDA graphs."""
