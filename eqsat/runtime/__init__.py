"""The compiled program: its variants, its arrays, what is kept on disk, and its stages for those who look."""
