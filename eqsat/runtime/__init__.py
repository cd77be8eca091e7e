"""The compiled program: its variants, its arrays, its files, and its checks."""
