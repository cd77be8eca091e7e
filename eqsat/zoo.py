"""The light models of the `onnx` package, with realistic weights.

The files have constants as weights, so that every output is a constant. Here seeded random numbers replace them, scaled
to keep activations near 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ir.diagnostics import Kind, fail


def light_model(name: str, seed: int = 0) -> Any:
    """The ModelProto of `light_<name>.onnx`; `seed` determines its weights."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        fail(Kind.UNSUPPORTED_OP, "frontend", "the light models come with onnx", hint="pip install 'eqsat[onnx]'")
    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    path = folder / f"light_{name}.onnx"
    if not path.exists():
        known = sorted(file.stem.removeprefix("light_") for file in folder.glob("*.onnx"))
        fail(Kind.MALFORMED_GRAPH, "frontend", f"no light model {name!r}", known=known)
    model = onnx.load(str(path))
    rng = np.random.default_rng(seed)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    roles = {name: (node.op_type, place) for node in model.graph.node for place, name in enumerate(node.input)}
    kept: list[Any] = []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            array = _weights(rng, tuple(shapes[node.input[0]].tolist()), *roles.get(node.output[0], ("", 0)))
            model.graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        else:
            node.name = f"{node.op_type.lower()}_{len(kept)}"  # the files number their nodes: n0, n1, …
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    _drop_unread(model.graph)
    return model


def _drop_unread(graph: Any) -> None:
    """Remove initialisers that nothing reads any more, and their entries among the inputs."""
    read = {name for node in graph.node for name in node.input}
    for field in (graph.initializer, graph.input):
        used = [value for value in field if value.name in read]
        del field[:]
        field.extend(used)


def _weights(rng: np.random.Generator, shape: tuple[int, ...], op: str, place: int) -> np.ndarray:
    """He-scaled filters; batch-norm scales below 1, to keep residual sums small; a classifier that does not saturate
    its softmax."""
    draw = rng.standard_normal(shape, dtype=np.float32)
    if op == "BatchNormalization":
        return {1: 0.8 + 0.1 * draw, 4: 1 + 0.1 * np.abs(draw)}.get(place, 0.1 * draw).astype(np.float32)
    fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 100
    gain = 0.01 if op == "Gemm" else 2.0
    return (draw * np.float32(np.sqrt(gain / fan_in))).astype(np.float32)
