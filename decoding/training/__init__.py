"""Trains a drafter for a target: collects the target's own text with hidden states, and fits an EAGLE-3 head to it."""
