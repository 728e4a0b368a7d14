"""C++, compiled by g++."""
