"""Comments in C and CUDA text."""

from __future__ import annotations


def comment_text(text: str) -> str:
    """A comment of C over one line or several."""
    lines = text.replace("*/", "* /").splitlines()
    return "/* " + "\n   ".join(lines) + " */"
