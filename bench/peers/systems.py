"""Kernels and models in ONNX's format in every system, as functions without arguments that return a NumPy array."""

# mypy: allow-subclassing-any, allow-untyped-calls
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.avx2 import can_take_part
from bench.peers.kernels import Kernel
from bench.turns import Runner

Arrays = Mapping[str, np.ndarray]


OURS = ("eqsat", "eqsat, range")
"""eqsat as it is, and at `exactness="range"`."""


def program_of(kernel: Kernel, **options: Any) -> Any:
    """eqsat's program of a kernel, whose arguments are the tensors that are no constants."""
    from eqsat import nn, optimize_and_compile, tensor

    tensors = [
        tensor.constant(array) if name in kernel.constants else tensor.input(name, array.shape, array.dtype)
        for name, array in kernel.arrays.items()
    ]
    return optimize_and_compile(kernel.compute(nn, *tensors), **options)


def kernel_in_eqsat(kernel: Kernel, threads: int, exactness: str = "rounding") -> Runner:
    program = program_of(kernel, threads=threads, exactness=exactness)
    inputs = varying_arrays(kernel).values()
    return lambda: program(*inputs)


def kernel_in_torch(kernel: Kernel, threads: int) -> Runner:
    return module_in_torch(partial(module_of, kernel), varying_arrays(kernel), threads)


def kernel_in_inductor(kernel: Kernel, threads: int) -> Runner:
    return module_in_inductor(partial(module_of, kernel), varying_arrays(kernel), threads)


def module_in_torch(build: Callable[[], Any], inputs: Arrays, threads: int) -> Runner:
    import torch

    torch.set_num_threads(threads)
    module, given = build(), [as_torch(array) for array in inputs.values()]

    def run() -> Any:
        with torch.inference_mode():
            return module(*given).numpy()

    return run


def module_in_inductor(build: Callable[[], Any], inputs: Arrays, threads: int) -> Runner:
    """torch.compile with constants laid out once (`freezing`)."""
    import torch

    torch.set_num_threads(threads)
    compiled = torch.compile(build(), options={"freezing": True})
    given = [as_torch(array) for array in inputs.values()]

    def run() -> Any:
        with torch.no_grad():
            return compiled(*given).numpy()

    return run


def kernel_in_xla(kernel: Kernel, threads: int) -> Runner:
    _keep_cores(threads)
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    names = list(kernel.arrays)
    constants = {name: jax.numpy.asarray(kernel.arrays[name]) for name in kernel.constants}
    given = [jax.numpy.asarray(kernel.arrays[name]) for name in names if name not in kernel.constants]

    def call(*inputs: Any) -> Any:
        varying = iter(inputs)
        return kernel.in_xla(jax, *(constants[name] if name in constants else next(varying) for name in names))

    compiled = jax.jit(call)
    return lambda: np.asarray(compiled(*given).block_until_ready())


def model_in_eqsat(model: str, inputs: Arrays, threads: int, exactness: str = "rounding") -> Runner:
    from eqsat import optimize_and_compile

    program = optimize_and_compile(model, threads=threads, exactness=exactness)
    given = list(inputs.values())  # by position: an exporter may name them anew

    def run() -> Any:
        results = program(*given)
        return results[0] if isinstance(results, tuple | list) else results

    return run


def model_in_onnxruntime(model: str, inputs: Arrays, threads: int) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = _by_name(inputs, [argument.name for argument in session.get_inputs()])
    return lambda: session.run(None, given)[0]


def model_in_openvino(model: str, inputs: Arrays, threads: int) -> Runner:
    """The CPU plugin, in fp32 also where the machine multiplies bf16 faster; the request shares its arrays."""
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    given = _by_name(inputs, [argument.any_name for argument in compiled.inputs])
    return lambda: request.infer(given, share_inputs=True, share_outputs=True)[0]


KERNEL_SYSTEMS: Mapping[str, Callable[[Kernel, int], Runner]] = {
    "eqsat": kernel_in_eqsat,
    "eqsat, range": partial(kernel_in_eqsat, exactness="range"),
    "torch": kernel_in_torch,
    "inductor": kernel_in_inductor,
    "xla": kernel_in_xla,
}
"""The systems that take functions."""
MODEL_SYSTEMS: Mapping[str, Callable[[str, Arrays, int], Runner]] = {
    "eqsat": model_in_eqsat,
    "eqsat, range": partial(model_in_eqsat, exactness="range"),
    "onnxruntime": model_in_onnxruntime,
    "openvino": model_in_openvino,
}
"""The systems that take files in ONNX's format."""
PACKAGES = {
    "torch": "torch",
    "inductor": "torch",
    "xla": "jax",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
}


def takes_part(system: str) -> bool:
    """Whether a system is installed and has the instructions of the others."""
    return system in OURS or (find_spec(PACKAGES[system]) is not None and can_take_part(system))


def module_of(kernel: Kernel) -> Any:
    """The kernel as a module of torch, its constants as buffers."""
    import torch

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in kernel.constants:
                self.register_buffer(name, as_torch(kernel.arrays[name]))

        def forward(self, *inputs: Any) -> Any:
            varying = iter(inputs)
            tensors = [getattr(self, name) if name in kernel.constants else next(varying) for name in kernel.shapes]
            return kernel.compute(torch.nn.functional, *tensors)

    return Module().eval()


def as_torch(array: np.ndarray) -> Any:
    """A tensor of torch with the array's values; NumPy has no bf16 of its own."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def export_kernel(kernel: Kernel, path: Path) -> None:
    """Writes the kernel as a model in ONNX's format."""
    import torch

    given = tuple(as_torch(array) for array in varying_arrays(kernel).values())
    exported = torch.onnx.export(module_of(kernel), given, dynamo=True, verbose=False)
    assert exported is not None
    exported.save(str(path), include_initializers=True)


def varying_arrays(kernel: Kernel) -> dict[str, np.ndarray]:
    """The arrays that are inputs of every call."""
    return {name: array for name, array in kernel.arrays.items() if name not in kernel.constants}


def _by_name(inputs: Arrays, names: list[str]) -> dict[str, np.ndarray]:
    """The inputs by the names that the model has for them, in order: an exporter may name them anew."""
    return {name: inputs.get(name, array) for name, array in zip(names, inputs.values(), strict=True)}


def _keep_cores(threads: int) -> None:
    """Restricts this process to so many cores: XLA has no option for threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
