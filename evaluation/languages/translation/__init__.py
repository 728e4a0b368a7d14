"""Makes tasks in other languages from Python tasks: cases, types, doc comments, and oracles that check them."""
