"""PyTorch: FX graphs of ATen operators become lazy tensors. Files here import torch inside functions only."""
