"""Products by constant weights of few bits, in eqsat and in onnxruntime: `python -m bench.narrow_weights [--only 4-bit]
[--threads 2] [--rounds 9] [--update]`.

Weights are 4096 × 4096: words of 4 bits with a scale for 32 of them (`MatMulNBits`), bytes with a scale for a column,
bf16 and fp16. A decoder is of four layers as those of TinyLlama (2048 channels, 32 heads, 4 of keys, 5632 hidden ones)
and takes one token, with caches of 256. onnxruntime computes with activations of fp32, as eqsat does: it may not fuse
`DequantizeLinear` and `MatMul`, which it would compute from activations of bytes, with errors of 5e-3.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench.arguments import containing, count
from bench.facts import facts, load, warn_of_load, write
from bench.turns import Case, Runner, measure

SIZE = 4096
BLOCK = 32
"""Words that share a scale."""
ROWS = (1, 4, 16, 128)
LAYERS, CHANNELS, HIDDEN, HEADS, KEY_HEADS, WIDTH, CACHED = 4, 2048, 5632, 32, 4, 64, 256
TOLERANCE = 1e-3
"""Largest difference of an output, relative to the largest value."""


class Graph:
    """An ONNX graph under construction, and the arrays with which it is called."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.rng = np.random.default_rng(0)

    def draw(self, *shape: int, scale: float = 0.1) -> np.ndarray:
        """Normal numbers of fp32."""
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def constant(self, name: str, array: np.ndarray, dtype: int | None = None) -> str:
        """An initializer, of the array's dtype or of an ONNX dtype."""
        from onnx import helper, numpy_helper

        made = numpy_helper.from_array(array, name)
        if dtype is not None:
            made = helper.make_tensor(name, dtype, array.shape, array.ravel())
        self.constants.append(made)
        return name

    def argument(self, name: str, array: np.ndarray) -> str:
        """An input, which is called with the array."""
        self.inputs[name] = array
        return name

    def node(self, op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> str:
        """A node; its first output."""
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        return outputs[0]

    def words(self, name: str, x: str, depth: int, columns: int) -> str:
        """x times a matrix [depth, columns] of words of 4 bits."""
        blocks = depth // BLOCK
        words = self.rng.integers(0, 256, (columns, blocks, BLOCK // 2), dtype=np.uint8)
        inputs = [x, self.constant(f"{name}_words", words), self.constant(f"{name}_scales", self.draw(columns, blocks))]
        how = {"K": depth, "N": columns, "bits": 4, "block_size": BLOCK, "accuracy_level": 1}
        return self.node("MatMulNBits", inputs, [name], domain="com.microsoft", **how)

    def model(self, outputs: list[str], shapes: Mapping[str, Sequence[int | str]] | None = None) -> bytes:
        """The model, in ONNX's format. shapes: of inputs with free sizes."""
        from onnx import helper

        sizes = {name: array.shape for name, array in self.inputs.items()} | dict(shapes or {})
        arguments = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), sizes[name])
            for name, array in self.inputs.items()
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "narrow", arguments, results, self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        return made


def product(weights: str, rows: int) -> tuple[Graph, list[str]]:
    """Rows times a matrix of such weights."""
    from onnx import TensorProto

    graph = Graph()
    x = graph.argument("x", graph.draw(rows, SIZE))
    if weights == "4-bit":
        return graph, [graph.words("y", x, SIZE, SIZE)]
    if weights == "8-bit":
        numbers = graph.constant("w", graph.rng.integers(-128, 128, (SIZE, SIZE), dtype=np.int8))
        scales = graph.constant("scales", np.abs(graph.draw(SIZE)))
        wide = graph.node("DequantizeLinear", [numbers, scales], ["wide"], axis=1)
    else:
        dtype = {"bf16": TensorProto.BFLOAT16, "fp16": TensorProto.FLOAT16}[weights]
        wide = graph.node("Cast", [graph.constant("w", graph.draw(SIZE, SIZE), dtype)], ["wide"], to=TensorProto.FLOAT)
    return graph, [graph.node("MatMul", [x, wide], ["y"])]


def decoder(is_masked: bool = False) -> tuple[Graph, list[str]]:
    """One token through the layers of a decoder; the last layer's channels, then the caches. is_masked: the number of
    tokens is that of the argument `mask`, as in models whose caches grow."""
    graph, ours = Graph(), {"domain": "com.microsoft"}
    h = graph.argument("h", graph.draw(1, 1, CHANNELS, scale=1.0))
    last, total = _places(graph) if is_masked else _known_places(graph)
    angles = np.outer(np.arange(2 * CACHED), 1e4 ** -np.linspace(0, 1, WIDTH // 2))
    turns = [graph.constant(name, fn(angles).astype(np.float32)) for name, fn in (("cos", np.cos), ("sin", np.sin))]
    n = graph.node("SimplifiedLayerNormalization", [h, graph.constant("g", 1 + graph.draw(CHANNELS))], ["n"])
    caches = []
    for layer in range(LAYERS):
        past = [graph.argument(f"{c}{layer}", graph.draw(1, KEY_HEADS, CACHED, WIDTH)) for c in ("keys", "values")]
        qkv = graph.words(f"qkv{layer}", n, CHANNELS, (HEADS + 2 * KEY_HEADS) * WIDTH)
        outputs = [f"attention{layer}", f"new_keys{layer}", f"new_values{layer}"]
        how = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "do_rotary": 1}
        graph.node("GroupQueryAttention", [qkv, "", "", *past, last, total, *turns], outputs, **how, **ours)
        caches += outputs[1:]
        n, h = _add(graph, h, graph.words(f"o{layer}", outputs[0], HEADS * WIDTH, CHANNELS), f"a{layer}")
        gate, up = (graph.words(f"{name}{layer}", n, CHANNELS, HIDDEN) for name in ("gate", "up"))
        share = graph.node("Sigmoid", [gate], [f"share{layer}"])
        hidden = graph.node("Mul", [graph.node("Mul", [gate, share], [f"silu{layer}"]), up], [f"hidden{layer}"])
        n, h = _add(graph, h, graph.words(f"down{layer}", hidden, HIDDEN, CHANNELS), f"b{layer}")
    return graph, [n, *caches]


def _known_places(graph: Graph) -> tuple[str, str]:
    """The last position and the number of positions, as constants."""
    last = graph.constant("last", np.full(1, CACHED, np.int32))
    return last, graph.constant("total", np.full(1, CACHED + 1, np.int32))


def _places(graph: Graph) -> tuple[str, str]:
    """The last position and the number of positions, from the sum and the size of a mask."""
    from onnx import TensorProto

    mask = graph.argument("mask", np.ones((1, CACHED + 1), np.int64))
    one, axis = (graph.constant(name, np.full(1, value, np.int64)) for name, value in (("one", 1), ("axis", 1)))
    seen = graph.node("Sub", [graph.node("ReduceSum", [mask, axis], ["seen"], keepdims=0), one], ["place"])
    length = graph.node("Gather", [graph.node("Shape", [mask], ["shape"]), axis], ["length"])
    last, total = (
        graph.node("Cast", [value], [name], to=TensorProto.INT32) for value, name in ((seen, "last"), (length, "total"))
    )
    return last, total


def _add(graph: Graph, h: str, x: str, name: str) -> tuple[str, str]:
    """h + x, normalised and as it is."""
    gain = graph.constant(f"gain_{name}", 1 + graph.draw(CHANNELS))
    outputs = [f"n_{name}", "", "", f"h_{name}"]
    graph.node("SkipSimplifiedLayerNormalization", [h, x, gain], outputs, domain="com.microsoft")
    return outputs[0], outputs[3]


def cases() -> Mapping[str, Callable[[], tuple[Graph, list[str]]]]:
    """The graphs by name."""
    products = {
        f"{weights}, {rows} {'row' if rows == 1 else 'rows'}": partial(product, weights, rows)
        for weights in ("4-bit", "8-bit", "bf16", "fp16")
        for rows in ROWS
    }
    return {**products, "4-bit, a token through four layers": decoder}


def find(name: str) -> Case:
    """A graph as a case of `bench.turns`."""
    graph, outputs = cases()[name]()
    model = graph.model(outputs)

    def ours(threads: int) -> Runner:
        import onnx

        from eqsat import optimize_and_compile

        program = optimize_and_compile(onnx.load_model_from_string(model), threads=threads)
        first: Callable[[Any], Any] = (lambda y: y[0]) if len(outputs) > 1 else (lambda y: y)
        return lambda: first(program(**graph.inputs))

    def theirs(threads: int) -> Runner:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, graph.inputs)[0]

    return Case(name, TOLERANCE, {"eqsat": ours, "onnxruntime": theirs})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--rounds", type=count, default=9)
    parser.add_argument("--update", action="store_true", help="write bench/results/narrow_weights.json")
    options = parser.parse_args()
    chosen = containing(parser, options.only, cases())
    warn_of_load()
    about = {**facts(), "threads": options.threads, "rounds": options.rounds}
    rows = []
    print(f"{'weights':<36}{'eqsat ms':>10}{'ort ms':>9}{'ratio':>8}")
    for name in chosen:
        times = measure(partial(find, name), options.threads, options.rounds)
        ours, theirs = times["eqsat"].median * 1e3, times["onnxruntime"].median * 1e3
        print(f"{name:<36}{ours:>10.3f}{theirs:>9.3f}{theirs / ours:>8.2f}", flush=True)
        rows.append({"weights": name, "eqsat ms": ours, "onnxruntime ms": theirs, "ratio": round(theirs / ours, 2)})
    if options.update:
        write("narrow_weights", {**about, "load after": load()}, rows)


if __name__ == "__main__":
    main()
