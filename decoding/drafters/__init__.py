"""The parts that propose tokens: a draft model, text already seen, or nothing."""
