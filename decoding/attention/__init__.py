"""A model's forward over many rows of different lengths: runners, attention backends, recurrent layers, CUDA graphs."""
