"""How many tokens to draft in the next round, and what a round costs."""
