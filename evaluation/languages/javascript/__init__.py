"""JavaScript, run by Node."""
