"""Tokens through a decoder whose caches grow, in eqsat and in onnxruntime: `python -m bench.decoding [--tokens 48]
[--threads 2] [--update]`.

The decoder is that of `bench.narrow_weights`, with 4-bit weights. Its caches begin with 200 tokens, and each call
returns them with one more. eqsat builds code for 256 tokens at the first call, which has masks; or (`own sizes`) code
for every length, of which the bench builds two.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.arguments import count
from bench.facts import facts, load, warn_of_load, write
from bench.narrow_weights import CACHED, CHANNELS, KEY_HEADS, TOLERANCE, WIDTH, decoder

FIRST = 200
"""Tokens in the caches of the first call."""

Call = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


class Decoding:
    """A loop over random tokens. names: of the caches. `result` is what the decoder made of the latest token."""

    def __init__(self, names: list[str], call: Call) -> None:
        self._names, self._call = names, call
        self._rng = np.random.default_rng(0)
        self._caches = {name: self._draw(1, KEY_HEADS, FIRST, WIDTH) for name in names}
        self.result = np.empty(0)

    def _draw(self, *shape: int) -> np.ndarray:
        return self._rng.standard_normal(shape).astype(np.float32)

    def step(self) -> float:
        """The next token; the seconds of the call."""
        tokens = self._caches[self._names[0]].shape[2]
        inputs = {"h": self._draw(1, 1, CHANNELS), "mask": np.ones((1, tokens + 1), np.int64), **self._caches}
        start = time.perf_counter()
        self.result, *caches = self._call(inputs)
        seconds = time.perf_counter() - start
        self._caches = dict(zip(self._names, caches, strict=True))
        return seconds


def systems(model: bytes, threads: int) -> dict[str, tuple[Call, int | None]]:
    """The call of each system, and how many tokens it computes at most."""
    import onnx
    import onnxruntime

    from eqsat import optimize_and_compile

    ours = onnx.load_model_from_string(model)
    padded = optimize_and_compile(
        ours, threads=threads, dims={"past": [CACHED], "total": "past + 1"}, when_missing="pad"
    )
    own = optimize_and_compile(ours, threads=threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return {
        "eqsat, one bucket": (lambda inputs: list(padded(inputs)), None),
        "onnxruntime": (lambda inputs: session.run(None, inputs), None),
        "eqsat, own sizes": (lambda inputs: list(own(inputs)), 2),
    }


def model_and_caches() -> tuple[bytes, list[str]]:
    """The decoder with free sizes, and the names of its caches."""
    graph, outputs = decoder(is_masked=True)
    names = [name for name in graph.inputs if name not in ("h", "mask")]
    shapes: dict[str, Any] = dict.fromkeys(names, (1, KEY_HEADS, "past", WIDTH))
    return graph.model(outputs, {**shapes, "mask": (1, "total")}), names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=count, default=48)
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--update", action="store_true", help="write bench/results/decoding.json")
    options = parser.parse_args()
    tokens = min(options.tokens, CACHED + 1 - FIRST)
    warn_of_load()
    about = {**facts(), "threads": options.threads, "tokens": tokens}
    model, names = model_and_caches()
    rows, last = [], {}
    print(f"{'system':<20}{'first call s':>14}{'token ms':>10}")
    for name, (call, most) in systems(model, options.threads).items():
        loop = Decoding(names, call)
        first, *rest = [loop.step() for _ in range(tokens if most is None else most)]
        token = float(np.median(rest)) * 1e3
        print(f"{name:<20}{first:>14.2f}{token:>10.2f}", flush=True)
        rows.append({"system": name, "first call s": round(first, 3), "token ms": round(token, 3)})
        if most is None:
            last[name] = loop.result
    difference = float(abs(np.subtract(*last.values())).max() / abs(last["onnxruntime"]).max())
    if not difference < TOLERANCE:
        raise SystemExit(f"the last tokens differ by {difference:.1e}")
    print(f"the last tokens differ by {difference:.1e}")
    if options.update:
        write("decoding", {**about, "load after": load()}, rows)


if __name__ == "__main__":
    main()
