"""How many tokens to draft in the next round."""
