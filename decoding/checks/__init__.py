"""What is tried before anybody relies on it: a model's fit, the kernels, batch invariance."""
