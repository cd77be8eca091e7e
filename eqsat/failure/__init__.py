"""Failures of eqsat itself: an InternalError, and a Python file that reproduces the failure."""
