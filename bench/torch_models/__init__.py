"""Models of torch in eager, in inductor, in onnxruntime and in eqsat."""
