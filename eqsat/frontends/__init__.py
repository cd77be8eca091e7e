"""Input formats of models, ONNX and Frontend IR, and their lowering to Tiny IR."""
