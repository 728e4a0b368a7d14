"""One round of batched speculative decoding: draft, verify, accept, commit."""
