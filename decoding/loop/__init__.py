"""The decoding loop: which requests join a batch, its rounds, and when requests end."""
