"""An ONNX model in eqsat's playback and in onnxruntime, tensor by tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from eqsat.frontends.frontend_to_tiny import frontend_to_tiny
from eqsat.frontends.onnx.load_onnx import load_onnx
from eqsat.frontends.onnx.read_onnx import parse_onnx
from eqsat.model import FrontendModel
from eqsat.runtime.verify import relative_error
from ir.diagnostics import Kind, fail
from ir.frontend import SignatureOutput
from ir.tiny.bind import load
from ir.tiny.playback import playback

STAGE = "compare"


class Layer(NamedTuple):
    """A tensor of a model. error: the largest difference, divided by onnxruntime's largest value; inf where types,
    NaN or infinities differ."""

    tensor: str
    op: str
    node: str
    error: float


def compare_layers(source: Any, inputs: Mapping[str, np.ndarray]) -> list[Layer]:
    """Every tensor that a node makes, in the order of the nodes, on these inputs. Tensors that only one side has are
    left out.

    Raises:
        EqsatError: UnsupportedOp without onnxruntime; MalformedGraph for a model that onnxruntime refuses; all that
            lowering and playback raise.
    """
    model = parse_onnx(source)
    frontend, constants = load_onnx(model)
    producers = {name: node for node in frontend.graph for name in node.outputs if name}
    expected = _by_onnxruntime(model, inputs, [name for node in model.graph.node for name in node.output if name])
    wanted = [name for name in producers if name in expected]
    signature = msgspec.structs.replace(frontend.signature, outputs=tuple(map(SignatureOutput, wanted)))
    every = msgspec.structs.replace(frontend, signature=signature)
    sizes = FrontendModel(frontend=every, constants=constants).infer(
        {name: array.shape for name, array in inputs.items()}
    )
    tiny, own = frontend_to_tiny(every, sizes, constants)
    graph, _ = load(tiny)
    results = playback(graph, {**inputs, **own})
    return [
        Layer(name, producers[name].op, producers[name].name, _error(array, expected[name]))
        for name, array in zip(wanted, results, strict=True)
    ]


def _error(result: np.ndarray, expected: np.ndarray) -> float:
    return relative_error(result, expected) if result.dtype == expected.dtype else float("inf")


def _by_onnxruntime(model: Any, inputs: Mapping[str, np.ndarray], wanted: list[str]) -> dict[str, np.ndarray]:
    """These tensors of a model as onnxruntime computes them, without its optimizations."""
    try:
        import onnxruntime
    except ImportError:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a comparison needs onnxruntime", hint="pip install onnxruntime")
    import onnx

    traced = onnx.ModelProto()
    traced.CopyFrom(model)
    have = {output.name for output in traced.graph.output}
    traced.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in have)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(traced.SerializeToString(), options, ["CPUExecutionProvider"])
        results = session.run(None, dict(inputs))
    except Exception as error:  # onnxruntime raises many types
        fail(Kind.MALFORMED_GRAPH, STAGE, f"onnxruntime does not run the model: {error}")
    named = zip([output.name for output in session.get_outputs()], results, strict=True)
    return {name: value for name, value in named if isinstance(value, np.ndarray)}
