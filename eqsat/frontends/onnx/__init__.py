"""ONNX → Frontend IR, and the lowering of ONNX's operators."""
