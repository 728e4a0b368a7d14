"""Which draft tokens are kept: the lossless rules, the distributions they compare and the random draws."""
