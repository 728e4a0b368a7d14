"""Which draft tokens a sample keeps: distributions, noise, and one file for each lossless rule."""
