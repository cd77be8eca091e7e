"""Why the program is what it is."""
