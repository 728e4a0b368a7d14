"""Source that runs in the project's own interpreter: standard library only, Python 3.9 or later."""
