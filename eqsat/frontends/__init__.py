"""What models come in: ONNX and Frontend IR, lowered to Tiny IR."""
