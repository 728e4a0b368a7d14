"""The parts that propose tokens: a draft model, a trained head, text already seen, or nothing."""
