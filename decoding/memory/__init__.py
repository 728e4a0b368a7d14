"""Memory for keys, values and recurrent states: accounts, where each row is, what is kept of earlier prompts."""
