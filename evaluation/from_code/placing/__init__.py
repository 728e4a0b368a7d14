"""An answer in its module: the module's own source around it, and the project's objects rebuilt for its calls."""
