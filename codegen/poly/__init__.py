"""Where, and legality: region → IndexBook → Poly-View → Poly Core, which plans and lowerings read.

`region_facts` has them all; `contraction_check` holds what will be lowered against isl, and `poly_core_to_report` adds
what only people and pipelined plans ask for.
"""
