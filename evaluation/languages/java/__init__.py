"""Java, compiled and run by fresh virtual machines that start from archives of loaded classes."""
