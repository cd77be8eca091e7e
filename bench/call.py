"""The overhead of a call beside the kernels: `python -m bench.call [--inputs 3] [--rounds N]`.

One program of ten inputs of 8×8 fp32, their sum: one kernel in eqsat, nine in torch's eager mode. Every way of calling
is timed in turn, many times; the fastest time of each counts, since other processes only add to it. The overhead of
eqsat is its time less the time of its machine code, called with a table of addresses that is ready. torch and
onnxruntime take part where they are installed.
"""

from __future__ import annotations

import argparse
import functools
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.arguments import count
from bench.facts import warn_of_load
from eqsat import optimize_and_compile, tensor
from eqsat.runtime.program import Program

SHAPE = (8, 8)
CALLS = 2000
"""Calls in one sample."""
Call = Callable[[], Any]


def sum_of_inputs(number: int) -> Program:
    """The sum of so many inputs, on one thread."""
    inputs = [tensor.input(f"x{place}", SHAPE) for place in range(number)]
    return optimize_and_compile(functools.reduce(operator.add, inputs), target="cpu", threads=1)


def eqsat_calls(program: Program, arrays: Sequence[np.ndarray]) -> dict[str, Call]:
    """The ways to call eqsat's program, and its machine code alone."""
    named = dict(zip(program.arguments, arrays, strict=True))
    executable: Any = program._compiled.executable
    program(*arrays)
    table = executable._arenas[-1].table.buffer_info()[0]
    return {
        "machine code": lambda: executable._program(table, 1),
        "eqsat, NumPy, by position": lambda: program(*arrays),
        "eqsat, NumPy, by name": lambda: program(**named),
        "eqsat, bound": program.bound(*arrays),
    }


def torch_calls(program: Program, arrays: Sequence[np.ndarray]) -> dict[str, Call]:
    """eqsat with torch tensors, and torch's eager mode; none without torch."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    tensors = [torch.from_numpy(array) for array in arrays]
    named = dict(zip(program.arguments, tensors, strict=True))
    return {
        "eqsat, torch, by position": lambda: program(*tensors),
        "eqsat, torch, by name": lambda: program(**named),
        "torch eager": lambda: functools.reduce(operator.add, tensors),
    }


def onnxruntime_calls(arrays: Sequence[np.ndarray]) -> dict[str, Call]:
    """onnxruntime's session with one Sum; none without onnx and onnxruntime."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return {}
    names = [f"x{place}" for place in range(len(arrays))]
    kind = onnx.TensorProto.FLOAT
    infos = [onnx.helper.make_tensor_value_info(name, kind, SHAPE) for name in (*names, "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Sum", names, ["y"])], "sum", infos[:-1], infos[-1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    named = dict(zip(names, arrays, strict=True))
    return {"onnxruntime": lambda: session.run(None, named)}


def fastest(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Seconds per call, of the fastest sample of each."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / CALLS)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=count, default=15, help="samples of each way of calling")
    parser.add_argument("--inputs", type=count, default=10, help="of the program")
    options = parser.parse_args()
    warn_of_load()
    program = sum_of_inputs(options.inputs)
    arrays = [np.random.default_rng(place).random(SHAPE, np.float32) for place in range(options.inputs)]
    calls = {**eqsat_calls(program, arrays), **torch_calls(program, arrays), **onnxruntime_calls(arrays)}
    for name, call in calls.items():
        if name != "machine code":
            result = call()
            np.testing.assert_allclose(np.asarray(result).reshape(SHAPE), sum(arrays), rtol=1e-5)
    times = fastest(calls, options.rounds)
    print(f"{'':28}  µs per call   µs on top of the kernels")
    for name, seconds in times.items():
        beside = f"{(seconds - times['machine code']) * 1e6:12.1f}" if name.startswith("eqsat") else ""
        print(f"{name:28} {seconds * 1e6:12.1f} {beside}")


if __name__ == "__main__":
    main()
