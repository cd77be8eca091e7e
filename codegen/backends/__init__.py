"""Families of targets."""
