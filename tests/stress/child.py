"""One process that uses eqsat as its users do, for those who kill it or damage its files: compiles a few programs with
the cache, compares their results, saves and loads one. The last line that it prints is JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import eqsat
from eqsat import nn, tensor
from eqsat.tensor import Tensor


def programs(count: int) -> list[tuple[Tensor, Any]]:
    """Lazy tensors over an input x [5, 7], and what NumPy makes of it."""
    weight = (np.arange(21, dtype=np.float32).reshape(7, 3) - 10) / 8
    x = tensor.input("x", (5, 7))
    results: list[tuple[Tensor, Any]] = [
        ((x @ weight).relu() + 1, lambda a: np.maximum(a @ weight, 0) + 1),
        (nn.softmax(x), lambda a: np.exp(a) / np.exp(a).sum(-1, keepdims=True)),
        (x.cumsum(1) * 2, lambda a: np.cumsum(a, 1) * 2),
    ]
    return results[:count]


def main() -> None:
    saved, count = Path(sys.argv[1]), int(sys.argv[2])
    given = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    notes, wrong = [], []
    for number, (y, meaning) in enumerate(programs(count)):
        program = eqsat.optimize_and_compile(y, target="cpu", threads=2)
        notes += [diagnostic.message for diagnostic in program.diagnostics if diagnostic.stage == "cache"]
        if not np.allclose(program(given), meaning(given), rtol=1e-5, atol=1e-5):
            wrong.append(number)
    with tempfile.TemporaryDirectory() as folder:
        path = saved if saved.name else Path(folder) / "program.eqsat"
        try:
            again = eqsat.load(path)
        except eqsat.EqsatError as error:
            notes.append(f"load: {error.kind}")
            program.save(path)
            again = eqsat.load(path)
        if not np.allclose(again(given), meaning(given), rtol=1e-5, atol=1e-5):
            wrong.append(-1)
    print(json.dumps({"wrong": wrong, "notes": notes}))


if __name__ == "__main__":
    try:
        main()
    except eqsat.EqsatError as refusal:
        print(json.dumps({"wrong": [], "notes": [], "refused": f"{refusal.kind}: {refusal}"}))
