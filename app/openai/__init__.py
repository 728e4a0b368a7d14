"""The OpenAI-compatible API, so that existing clients and harnesses work unchanged."""
