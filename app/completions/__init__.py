"""One prompt, n samples, a budget."""
