"""Plans: how one region runs, one class per template and backend, and the Schedule that prints them."""
