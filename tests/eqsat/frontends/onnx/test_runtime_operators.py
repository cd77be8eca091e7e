"""The operators of onnxruntime's own domain, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eqsat.frontends.onnx.operator_table import OPERATORS
from tests.eqsat.frontends.onnx.test_runtime_quantization import CASES as QUANTIZED
from tests.support.oracles.runtime_operator import Arrays, run_both

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


X, ROW = normal(2, 5, 12), normal(12)
HALF = np.outer(np.arange(9), 0.3 + np.arange(3)).astype(np.float32)
COSINES, SINES = np.cos(HALF), np.sin(HALF)
CASES: dict[str, tuple[str, Arrays, dict[str, Any]]] = {
    "gelu": ("Gelu", {"x": X}, {}),
    "fast_gelu": ("FastGelu", {"x": X, "b": ROW}, {}),
    "bias_gelu": ("BiasGelu", {"x": X, "b": ROW}, {}),
    "quick_gelu": ("QuickGelu", {"x": X}, {"alpha": 1.5}),
    "fused_matmul": (
        "FusedMatMul",
        {"a": normal(2, 4, 3), "b": normal(2, 5, 4)},
        {"alpha": 0.5, "transA": 1, "transB": 1},
    ),
    "fused_matmul_of_batches": (
        "FusedMatMul",
        {"a": normal(4, 2, 3), "b": normal(5, 2, 3)},
        {"transBatchA": 1, "transBatchB": 1, "transB": 1},
    ),
    **{
        f"fused_conv_{name}": (
            "FusedConv",
            {"x": normal(2, 4, 6, 6), "w": normal(4, 2, 3, 3), "b": normal(4), "z": normal(2, 4, 6, 6)},
            {"group": 2, "pads": [1, 1, 1, 1], "activation": name, **numbers},
        )
        for name, numbers in {
            "Relu": {},
            "Tanh": {},
            "LeakyRelu": {"activation_params": [0.3]},
            "Clip": {"activation_params": [-0.5, 1.5]},
            "HardSigmoid": {"activation_params": [0.25, 0.4]},
        }.items()
    },
    "skip_layer_norm": ("SkipLayerNormalization", {"x": X, "s": normal(2, 5, 12), "g": ROW, "b": ROW + 1}, {}),
    "skip_layer_norm_bias": (
        "SkipLayerNormalization",
        {"x": X, "s": normal(2, 5, 12), "g": ROW, "b": ROW + 1, "c": ROW * 2},
        {"epsilon": 1e-3},
    ),
    "skip_rms_norm": ("SkipSimplifiedLayerNormalization", {"x": X, "s": normal(2, 5, 12), "g": ROW}, {}),
    "attention": ("Attention", {"x": X, "w": normal(12, 36), "b": normal(36)}, {"num_heads": 3}),
    "attention_causal": (
        "Attention",
        {"x": X, "w": normal(12, 36), "b": normal(36)},
        {"num_heads": 2, "unidirectional": 1, "scale": 0.3},
    ),
    "attention_mask": (
        "Attention",
        {
            "x": X,
            "w": normal(12, 36),
            "b": normal(36),
            "m": np.asarray([[1, 1, 0, 1, 0], [1, 1, 1, 1, 0]], np.int32),
        },
        {"num_heads": 3},
    ),
    "attention_lengths": (
        "Attention",
        {"x": X, "w": normal(12, 36), "b": normal(36), "m": np.asarray([3, 5], np.int32)},
        {"num_heads": 3},
    ),
    "multi_head": ("MultiHeadAttention", {"q": X, "k": normal(2, 7, 12), "v": normal(2, 7, 12)}, {"num_heads": 3}),
    "multi_head_bias": (
        "MultiHeadAttention",
        {"q": X, "k": normal(2, 7, 12), "v": normal(2, 7, 12), "b": normal(36)},
        {"num_heads": 4, "scale": 0.2},
    ),
    "rotary": (
        "RotaryEmbedding",
        {"x": normal(2, 2, 4, 6), "p": np.asarray([[0, 1, 2, 3], [5, 2, 8, 0]]), "c": COSINES, "s": SINES},
        {},
    ),
    "rotary_interleaved": (
        "RotaryEmbedding",
        {"x": normal(2, 4, 12), "p": np.asarray([3]), "c": COSINES, "s": SINES},
        {"interleaved": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_agree_with_onnxruntime(name: str) -> None:
    actual, expected = run_both(*CASES[name])
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_every_operator_is_tested() -> None:
    tested = {op for op, _, _ in (*CASES.values(), *QUANTIZED.values())}
    others = {name for domain, name in OPERATORS if domain == "com.microsoft"} - tested
    own_files = {"QuantizeLinear", "DequantizeLinear", "MatMulNBits", "GatherBlockQuantized", "DynamicQuantizeLSTM"}
    own_files |= {"EmbedLayerNormalization", "QEmbedLayerNormalization", "GroupQueryAttention"}
    assert others == {"LayerNormalization", "SimplifiedLayerNormalization"} | own_files  # the former twice in the table
