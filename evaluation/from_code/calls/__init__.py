"""Calls of functions: recorded in the project's tests, drawn, observed in the sandbox, chosen, written as a test."""
