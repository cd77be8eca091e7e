"""Measures the time that is saved where equal calls are optimized once: a transformer whose layer is a graph that is
called 1, 2 and 12 times, beside the same program with its calls inlined.

    python -m bench.calls [--rounds 3] [--only decoder]

Every sample runs in a process of its own; two samples of one program must have the same result. Medians are reported
and written to `bench/results/`. `cpu` are seconds of CPU time from the bound graph to the kernels' texts; the other
times are wall times. Weights are constants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from bench.facts import peak_mebibytes
from bench.optimizing import Sample, median_of_samples, run_bench

CALLS = (1, 2, 12)
WIDTH, HEADS, WORDS = 768, 12, 2048
"""Width and heads are those of BERT-base and GPT-2; the vocabulary is small, so that layers make up the time."""

Graphs = dict[str, Any]


class _Weights:
    """The parameters of a graph: its data, then its weights in the order in which they are asked for."""

    def __init__(self, **data: Any) -> None:
        self.parameters = dict(data)

    def given(self, name: str, *shape: int) -> Any:
        from eqsat import tensor

        self.parameters[name] = tensor.input(name, shape)
        return self.parameters[name]

    def linear(self, x: Any, name: str, features: int) -> Any:
        return x @ self.given(f"{name}.w", x.shape[-1], features) + self.given(f"{name}.b", features)

    def norm(self, x: Any, name: str) -> Any:
        from eqsat import nn

        return nn.layer_norm(x, self.given(f"{name}.g", WIDTH), self.given(f"{name}.b", WIDTH))

    def graph(self, output: Any) -> Graphs:
        """The graph as Tiny JSON."""
        from eqsat.lazy.tensor_to_tiny import tensor_to_tiny

        return tensor_to_tiny([output], list(self.parameters.values()))[0]


def layer(length: int, *, causal: bool) -> tuple[_Weights, Graphs]:
    """A pre-norm transformer layer."""
    from eqsat import nn, tensor

    x = tensor.input("x", (length, WIDTH))
    own = _Weights(x=x)
    y = own.norm(x, "n1")
    q, k, v = (own.linear(y, name, WIDTH).reshape(length, HEADS, WIDTH // HEADS).permute(1, 0, 2) for name in "qkv")
    places = tensor.arange(length)
    seen = places.reshape(1, length) <= places.reshape(length, 1)
    mixed = nn.attention(q, k, v, seen if causal else None)
    x = x + own.linear(mixed.permute(1, 0, 2).reshape(length, WIDTH), "o", WIDTH)
    hidden = nn.gelu(own.linear(own.norm(x, "n2"), "up", 4 * WIDTH))
    return own, own.graph(x + own.linear(hidden, "down", WIDTH))


def embedding(length: int) -> tuple[_Weights, Graphs]:
    """Rows of a table for words, and of one for places."""
    from eqsat import tensor

    own = _Weights(words=tensor.input("words", (length,), "i64"))
    return own, own.graph(
        own.given("table", WORDS, WIDTH).take(own.parameters["words"], 0) + own.given("at", length, WIDTH)
    )


def head(length: int) -> tuple[_Weights, Graphs]:
    """The last norm, and the scores of all words."""
    from eqsat import tensor

    x = tensor.input("x", (length, WIDTH))
    own = _Weights(x=x)
    return own, own.graph(own.norm(x, "n") @ own.given("w", WIDTH, WORDS))


class _Calls:
    """A program of calls, one after another."""

    def __init__(self, name: str, value: Any) -> None:
        self.graphs: Graphs = {}
        self.uops: list[dict[str, Any]] = []
        self.last = name
        self._add_input(name, value)

    def _add_input(self, name: str, value: Any) -> None:
        arg = {"tensor_id": name, "dtype": str(value.dtype), "shape": list(value.shape)}
        self.uops.append({"id": name, "uop": "INPUT", "arg": arg})

    def call(self, result: str, graph: str, built: tuple[_Weights, Graphs]) -> None:
        """A call with the last result and with weights of its own."""
        own, self.graphs[graph] = built
        _, *weights = own.parameters.items()
        for name, value in weights:
            self._add_input(f"{result}.{name}", value)
        src = [self.last, *(f"{result}.{name}" for name, _ in weights)]
        self.uops.append({"id": result, "uop": "CALL", "src": src, "arg": {"graph": graph}})
        self.last = result

    def program(self) -> dict[str, Any]:
        return {"graphs": self.graphs, "uops": self.uops, "outputs": [self.last]}


def encoder(layers: int, length: int) -> dict[str, Any]:
    """Layers of an encoder."""
    built = layer(length, causal=False)
    calls = _Calls("x", built[0].parameters["x"])
    for number in range(layers):
        calls.call(f"layer{number}", "layer", built)
    return calls.program()


def decoder(layers: int, length: int) -> dict[str, Any]:
    """GPT-2 with fewer words."""
    first, built = embedding(length), layer(length, causal=True)
    calls = _Calls("words", first[0].parameters["words"])
    calls.call("embedding", "embedding", first)
    for number in range(layers):
        calls.call(f"layer{number}", "layer", built)
    calls.call("scores", "head", head(length))
    return calls.program()


def programs() -> dict[str, Callable[[], dict[str, Any]]]:
    """All programs by name."""
    return {
        f"{name} {length} ×{layers}": partial(build, layers, length)
        for name, build, lengths in (("encoder", encoder, (128, 1)), ("decoder", decoder, (128,)))
        for length in lengths
        for layers in CALLS
    }


def _samples() -> Sequence[str]:
    return [f"{name}, {form}" for name in programs() for form in ("called", "inlined")]


def measure(name: str) -> Sample:
    """One optimization of a program."""
    import numpy as np

    from eqsat.clock import Clock
    from eqsat.find_target import find_target
    from eqsat.model import BoundModel
    from eqsat.options import Options
    from eqsat.pipeline import optimize
    from ir.tiny.bind import load
    from ir.tiny.graph import Graph

    program, form = name.rsplit(", ", 1)
    graph, _ = load(programs()[program]())
    if form == "inlined":
        graph = Graph.build([msgspec.structs.replace(node, calls=()) for node in graph.nodes], graph.outputs)
    types = {tensor: graph.types[node.id] for tensor, node in graph.inputs.items() if tensor not in ("x", "words")}
    constants = {tensor: np.broadcast_to(np.float32(0), type_.shape) for tensor, type_ in types.items()}
    before = peak_mebibytes()
    clock, start, cpu = Clock(), time.perf_counter(), time.process_time()
    artifact = optimize(BoundModel(graph, constants), find_target("cpu"), Options(), clock)
    cpu, total = time.process_time() - cpu, time.perf_counter() - start
    return {
        "seconds": {"cpu": cpu, **clock.seconds, "total": total},
        "uops": len(graph.nodes),
        "candidates": artifact.stats.candidates,
        "kernels": len(artifact.module.running),
        "predicted us": round(sum(price.time_ns for price in artifact.prices) / 1e3, 3),
        "arena MiB": round(artifact.module.arena_bytes / 2**20, 3),
        "peak MiB": round(peak_mebibytes(), 1),
        "of which the model and libraries": round(before, 1),
    }


def main() -> None:
    def sample(name: str, rounds: int) -> Sample:
        return median_of_samples(rounds, measure, name)

    run_bench(__doc__, "calls", _samples(), sample, lambda row: row["seconds"]["cpu"])


if __name__ == "__main__":
    main()
