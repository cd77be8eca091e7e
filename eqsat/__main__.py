"""`python -m eqsat` is the command line."""

from __future__ import annotations

from eqsat.cli import main

if __name__ == "__main__":
    main()
