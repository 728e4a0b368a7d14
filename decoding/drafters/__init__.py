"""Whatever proposes tokens: a draft model, text already seen, or nothing."""
