"""The version of eqsat."""

__version__ = "0.1.0"
