"""Calls of functions: recorded in tests, changed a little, observed in the sandbox, chosen, written as a test."""
