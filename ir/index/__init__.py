"""Index algebra: quasi-affine expressions over the axes of a box, index maps, guards, and the maps of movements."""
