"""One value, one rounding: which kernels compute a value with the same bits."""
