"""Other libraries' methods, each run out of process in an environment of its own."""
