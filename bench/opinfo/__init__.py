"""torch's own samples of its operators (OpInfo), computed by eqsat's kernels and compared with eager."""
