"""Where, and legality: region → IndexBook → Poly-View → Poly Core, which planner and lowering take.

`analyse` makes all three of one region; `contraction_check` compares a lowered region with isl.
"""
