"""Seed 000 §11: what a kernel costs on a machine."""
