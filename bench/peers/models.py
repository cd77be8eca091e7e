"""The models of `bench.peers`: the light models of the `onnx` package, an encoder of BERT-base's size, one step of a
decoder of GPT-2's size over a cache of keys and values, and two of these models in bytes, as onnxruntime's quantizer
writes them (QDQ)."""

# mypy: allow-subclassing-any, allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.arguments import LIGHT

LAYERS, HEADS, WIDTH, TOKENS = 12, 12, 768, 128
"""Of BERT-base and of GPT-2, small; the encoder reads so many tokens, the decoder has so many behind it."""
_PER_CHANNEL = 13
_TOLERANCE_OF_BYTES = 0.1
"""A number that lies between two bytes may be rounded to either; so may all that follow from it."""


class Model(NamedTuple):
    """A model and its inputs. write: writes the model in ONNX's format. build: makes the module of torch, if it has
    one; that is also what `write` exports. tolerance: relative to the largest value of an output."""

    inputs: dict[str, np.ndarray]
    write: Callable[[Path], None]
    build: Callable[[], Any] | None = None
    tolerance: float = 1e-3


def models() -> dict[str, Model]:
    """All models by name."""
    rng = np.random.default_rng(0)
    text = {"x": rng.standard_normal((1, TOKENS, WIDTH), dtype=np.float32)}
    step = {"x": rng.standard_normal((1, 1, WIDTH), dtype=np.float32)}
    cache = (LAYERS, HEADS, TOKENS, WIDTH // HEADS)
    step |= {name: rng.standard_normal(cache, dtype=np.float32) for name in ("keys", "values")}
    bert = f"encoder of BERT-base, {TOKENS} tokens"
    whole = {
        bert: Model(text, lambda path: _export(encoder(), text, path), encoder),
        f"decoder step of GPT-2 after {TOKENS}": Model(step, lambda path: _export(decoder(), step, path), decoder),
        **{name: _light(name) for name in LIGHT},
    }
    return whole | {f"{name}, bytes": _in_bytes(whole[name]) for name in (bert, "resnet50")}


def encoder() -> Any:
    """The layers of BERT-base, without embeddings."""
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

        def forward(self, x: Any) -> Any:
            heads = self.before(x).reshape(1, TOKENS, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2])
            x = self.norms[0](x + self.mix(attended.transpose(1, 2).reshape(1, TOKENS, WIDTH)))
            return self.norms[1](x + self.down(nn.functional.gelu(self.up(x))))

    return _seeded(lambda: nn.Sequential(*(Layer() for _ in range(LAYERS))))


def decoder() -> Any:
    """One token through the layers of GPT-2; its keys and values join those of the cache."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.mix = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            q, k, v = self.before(self.norms[0](x)).reshape(1, 1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            keys, values = torch.cat([keys[None], k], 2), torch.cat([values[None], v], 2)
            attended = nn.functional.scaled_dot_product_attention(q, keys, values)
            x = x + self.mix(attended.transpose(1, 2).reshape(1, 1, WIDTH))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])

        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            for place, layer in enumerate(self.layers):
                x = layer(x, keys[place], values[place])
            return x

    return _seeded(Decoder)


def _seeded(build: Callable[[], Any]) -> Any:
    import torch

    torch.manual_seed(0)
    return build().eval()


def _export(module: Any, inputs: dict[str, np.ndarray], path: Path) -> None:
    import torch

    given = tuple(torch.from_numpy(array) for array in inputs.values())
    with torch.no_grad():
        exported = torch.onnx.export(module, given, dynamo=True, verbose=False)
    assert exported is not None
    exported.save(str(path))


def _light(name: str) -> Model:
    """A light model with random weights, and an image."""
    rng = np.random.default_rng(0)
    size = 28 if name == "mnist" else 224

    def write(path: Path) -> None:
        from eqsat.zoo import light_model

        path.write_bytes(light_model(name).SerializeToString())

    return Model({"image": rng.standard_normal((1, 3, size, size), dtype=np.float32)}, write)


def _in_bytes(model: Model) -> Model:
    """The model with weights of i8 and activations of u8, whose ranges are those of its inputs."""

    def write(path: Path) -> None:
        from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        class Inputs(CalibrationDataReader):
            def __init__(self) -> None:
                self.rest = iter([dict(zip(names, model.inputs.values(), strict=True))])

            def get_next(self) -> dict[str, np.ndarray] | None:
                return next(self.rest, None)

        whole, prepared = path.with_suffix(".whole.onnx"), path.with_suffix(".prepared.onnx")
        model.write(whole)
        _raise_version(whole)
        quant_pre_process(str(whole), str(prepared), skip_symbolic_shape=True)
        names = _input_names(prepared)
        kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
        quantize_static(str(prepared), str(path), Inputs(), per_channel=True, **kinds)

    return Model(model.inputs, write, tolerance=_TOLERANCE_OF_BYTES)


def _raise_version(path: Path) -> None:
    """Rewrites an old model in the first version of ONNX's operators that has scales per channel."""
    import onnx

    model = onnx.load(str(path))
    if model.opset_import[0].version >= _PER_CHANNEL:
        return
    known = {declared.name for declared in model.graph.input}
    for tensor in model.graph.initializer:  # the converter looks for them there
        if tensor.name not in known:
            shape = list(tensor.dims)
            model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, shape))
    onnx.save(onnx.version_converter.convert_version(model, _PER_CHANNEL), str(path))


def _input_names(path: Path) -> list[str]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [argument.name for argument in session.get_inputs()]
