"""From a region to a kernel that has run. Imports `ir` only.

poly      region → IndexBook → Poly-View → Poly Core: index sets, legality
plan      region, Poly Core → candidate plans, their work, the report on a kernel
lower     region, plan → a kernel of the CPU or the GPU dialect
text      kernel → C or CUDA text; the preludes on which the texts stand
compile   text → a shared library or cubins; compilers and the cache
run       machine code → calls on arrays
backends  the stages above, chosen by the family of the target
simt      CUDA text → an emulated kernel that runs on the CPU
measure   the speeds of this machine, for the cost model
"""
