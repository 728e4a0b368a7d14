"""TypeScript, run by Node without its types."""
