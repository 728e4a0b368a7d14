"""Source for the project's interpreter: standard library and pytest alone, Python 3.9 or later."""
