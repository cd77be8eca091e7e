"""Where, legality, how, text, compile, run: from a region to a kernel that has run.

    indexbook → poly_view → poly_core → plan → cpu → C text → toolchain, library → runtime

`prelude/` holds the C that every generated library includes; `machine` says what the kernels run on.
Imports `ir` only.
"""
