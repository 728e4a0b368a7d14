"""Memory for keys and values: who may have how much, where each row is, and what is kept of earlier prompts."""
