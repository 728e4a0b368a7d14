"""The engine: prompts in, samples out, before a deadline."""
