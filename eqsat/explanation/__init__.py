"""Explanations of a program: its rewrites, prices, and rejected candidates."""
