"""Where, legality, how, text, compile, run: from a region to a kernel that has run.

    indexbook → poly_view → poly_core → plan → cpu → C text → toolchain, library → runtime

A folder each: `where`, `plan`, `lower`, `text` (with the C prelude of every library), `compile`, `run`.
Imports `ir` only.
"""
