"""The cases of `bench.peers`: a case builds one computation for every system, on the same seeded inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Runner = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """`flops` is the useful work, for GFLOP/s. `builders`: system → threads → runner that computes the outputs."""

    name: str
    flops: float
    tolerance: float
    builders: Mapping[str, Callable[[int], Runner]]


def cases() -> dict[str, Case]:
    """All cases by name."""
    listed = [gemm(256), gemm(1024), linear_gelu(128, 768, 3072)]
    listed += [conv(64, 64, 56, 3), conv(512, 512, 7, 3), conv(256, 64, 56, 1), conv(1024, 256, 14, 1)]
    listed += [softmax(512, 1024), layer_norm(4096, 768), pointwise(1 << 22), attention(12, 512, 64), resnet50()]
    return {case.name: case for case in listed}


def draw(**shapes: tuple[int, ...]) -> Arrays:
    """Seeded unit normal fp32 arrays."""
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def gemm(n: int) -> Case:
    arrays = draw(a=(n, n), b=(n, n))
    return _case(
        f"gemm f32 {n}³",
        2.0 * n**3,
        arrays,
        lambda t: t.input("a", (n, n)) @ t.input("b", (n, n)),
        lambda torch, a, b: a @ b,
    )


def linear_gelu(m: int, k: int, n: int) -> Case:
    arrays = draw(x=(m, k), w=(k, n), bias=(n,))

    def ours(t: Any) -> Any:
        from eqsat import nn

        return nn.gelu(t.input("x", (m, k)) @ t.constant(arrays["w"]) + t.constant(arrays["bias"]))

    weight = np.ascontiguousarray(arrays["w"].T)

    def theirs(torch: Any, x: Any, w: Any, bias: Any) -> Any:
        return torch.nn.functional.gelu(torch.nn.functional.linear(x, torch.from_numpy(weight), bias))

    return _case(f"linear+gelu {m}×{k}×{n}", 2.0 * m * k * n, arrays, ours, theirs, given=("x",))


def conv(c_in: int, c_out: int, size: int, kernel: int) -> Case:
    arrays = draw(x=(1, c_in, size, size), w=(c_out, c_in, kernel, kernel))

    def ours(t: Any) -> Any:
        from eqsat import nn

        return nn.conv2d(t.input("x", arrays["x"].shape), t.constant(arrays["w"]), padding=kernel // 2).relu()

    def theirs(torch: Any, x: Any, w: Any) -> Any:
        return torch.relu(torch.nn.functional.conv2d(x, w, padding=kernel // 2))

    flops = 2.0 * c_in * c_out * size**2 * kernel**2
    return _case(f"conv {kernel}×{kernel} {c_in}→{c_out} @{size} + relu", flops, arrays, ours, theirs, given=("x",))


def softmax(rows: int, columns: int) -> Case:
    def ours(t: Any) -> Any:
        from eqsat import nn

        return nn.softmax(t.input("x", (rows, columns)))

    arrays = draw(x=(rows, columns))
    return _case(f"softmax {rows}×{columns}", 5.0 * rows * columns, arrays, ours, lambda torch, x: torch.softmax(x, -1))


def layer_norm(rows: int, columns: int) -> Case:
    arrays = draw(x=(rows, columns), g=(columns,), b=(columns,))

    def ours(t: Any) -> Any:
        from eqsat import nn

        return nn.layer_norm(*(t.input(name, array.shape) for name, array in arrays.items()))

    def theirs(torch: Any, x: Any, g: Any, b: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (columns,), g, b)

    return _case(f"layer norm {rows}×{columns}", 8.0 * rows * columns, arrays, ours, theirs)


def pointwise(size: int) -> Case:
    arrays = draw(x=(size,), a=(size,), b=(size,), z=(size,))

    def ours(t: Any) -> Any:
        from eqsat import nn

        x, a, b, z = (t.input(name, (size,)) for name in arrays)
        return nn.gelu(x * a + b) * z + x

    def theirs(torch: Any, x: Any, a: Any, b: Any, z: Any) -> Any:
        return torch.nn.functional.gelu(x * a + b) * z + x

    return _case(f"x·a+b → gelu → ·z+x {size >> 20}M", 16.0 * size, arrays, ours, theirs)


def attention(heads: int, tokens: int, width: int) -> Case:
    arrays = draw(**dict.fromkeys("qkv", (1, heads, tokens, width)))

    def ours(t: Any) -> Any:
        from eqsat import nn

        return nn.attention(*(t.input(name, array.shape) for name, array in arrays.items()))

    def theirs(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return _case(f"attention H{heads} S{tokens} D{width}", 4.0 * heads * tokens**2 * width, arrays, ours, theirs)


def resnet50() -> Case:
    """The light ResNet-50 of the onnx package with random weights; onnxruntime is the peer."""
    image = draw(x=(1, 3, 224, 224))["x"]

    def ours(threads: int) -> Runner:
        from eqsat import optimize_and_compile
        from eqsat.zoo import light_model

        program = optimize_and_compile(light_model("resnet50"), threads=threads)
        return lambda: program(image)

    def theirs(threads: int) -> Runner:
        import onnxruntime

        from eqsat.zoo import light_model

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        model = light_model("resnet50")
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda: session.run(None, {name: image})[0]

    return Case("ResNet-50", 7.7e9, 1e-4, {"eqsat": ours, "onnxruntime": theirs})


def _case(
    name: str,
    flops: float,
    arrays: Arrays,
    ours: Callable[[Any], Any],
    theirs: Callable[..., Any],
    given: tuple[str, ...] | None = None,
) -> Case:
    """A case of lazy tensors and torch; `given` are the inputs that vary per call, the others are constants."""

    def build_ours(threads: int) -> Runner:
        from eqsat import optimize_and_compile, tensor

        program = optimize_and_compile(ours(tensor), threads=threads)
        inputs = {name: arrays[name] for name in (given or tuple(arrays))}
        return lambda: program(**inputs)

    def build_torch(threads: int) -> Runner:
        import torch

        torch.set_num_threads(threads)
        tensors = [torch.from_numpy(array) for array in arrays.values()]

        def run() -> Any:
            with torch.inference_mode():
                return theirs(torch, *tensors)

        return run

    return Case(name, flops, 1e-4, {"eqsat": build_ours, "torch": build_torch})
