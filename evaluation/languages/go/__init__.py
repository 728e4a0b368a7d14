"""Go, compiled and linked by its tools against packages that are compiled once."""
