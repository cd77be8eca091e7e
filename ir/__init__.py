"""The data of all stages: Tiny IR, index maps, regions, plans and kernels. Imports no other package of eqsat."""
