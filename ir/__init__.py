"""The nouns: Tiny IR, index maps, regions, plans and kernels. Nothing here imports another package of ours."""
