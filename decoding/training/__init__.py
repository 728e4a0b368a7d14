"""Trains a drafter for a target: collects the target's own text with hidden states, and fits a DFlash head to it."""
