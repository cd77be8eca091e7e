"""Exports thirteen families of models by `torch.onnx.export(dynamo=True)`, random weights, for `bench.onnx_models`.

    python -m bench.export_models FOLDER [--only bert] [--dynamic]

Needs torch, torchvision, transformers and onnxscript, which no other part of eqsat needs; this file imports nothing of
eqsat. Writes NAME.onnx, and NAME.npz with the inputs. With `--dynamic` the batch, and the length of texts, are symbols,
and the names end in _dynamic.
"""

# mypy: allow-subclassing-any, allow-untyped-calls
from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Family(NamedTuple):
    """A model and its inputs, built when they are wanted. dynamic: the names of the input's first axes."""

    model: Callable[[], Any]
    inputs: Callable[[], tuple[Any, ...]]
    dynamic: tuple[str, ...] = ("batch",)


def import_torchvision() -> Any:
    """torchvision's Python code. Its compiled operators may belong to another build of torch: no model here calls them,
    but they must have names."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    while True:
        try:
            import torchvision
        except RuntimeError as error:
            absent = re.search(r"torchvision::(\w+)", str(error))
            if absent is None:
                raise
            library.define(f"{absent[1]}(Tensor x) -> Tensor")
            for module in [name for name in sys.modules if name.startswith("torchvision")]:
                del sys.modules[module]
        else:
            torchvision.eqsat_library = library  # the names live as long as the library
            return torchvision


def families() -> dict[str, Family]:
    """All families by name."""
    import torch

    vision = import_torchvision()
    import transformers as hf

    image = lambda size: lambda: (torch.randn(1, 3, size, size),)  # noqa: E731
    tokens = lambda length: lambda: (torch.randint(0, 1000, (1, length)),)  # noqa: E731
    text = ("batch", "length")
    llama = {"hidden_size": 512, "intermediate_size": 1376, "num_attention_heads": 8, "num_key_value_heads": 4}
    small = {"num_hidden_layers": 4, "vocab_size": 1000, "use_cache": False}
    torchvision_models = {
        "resnet18": "resnet18",
        "mobilenet_v3": "mobilenet_v3_large",
        "efficientnet_b0": "efficientnet_b0",
        "convnext": "convnext_tiny",
        "vit": "vit_b_16",
        "swin": "swin_t",
    }
    return {
        **{
            name: Family(lambda model=model: getattr(vision.models, model)(weights=None), image(224))  # type: ignore[misc]
            for name, model in torchvision_models.items()
        },
        "bert": Family(lambda: _one_result(hf.BertModel(hf.BertConfig(num_hidden_layers=4))), tokens(128), text),
        "gpt2": Family(
            lambda: _one_result(hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=4, use_cache=False)), "logits"),
            tokens(128),
            text,
        ),
        "llama": Family(
            lambda: _one_result(hf.LlamaForCausalLM(hf.LlamaConfig(**llama, **small)), "logits"), tokens(64), text
        ),
        "t5_encoder": Family(lambda: _one_result(hf.T5EncoderModel(hf.T5Config(num_layers=4))), tokens(64), text),
        "whisper_encoder": Family(
            lambda: _one_result(hf.WhisperModel(hf.WhisperConfig(encoder_layers=2, decoder_layers=1)).encoder),
            lambda: (torch.randn(1, 80, 3000),),
        ),
        "unet": Family(unet, image(64)),
        "lstm": Family(_lstm_classifier, lambda: (torch.randint(0, 1000, (2, 32)),)),
    }


def _one_result(model: Any, result: str = "last_hidden_state") -> Any:
    """The model as a module with one input and one result."""
    import torch

    class OneResult(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return getattr(self.model(x), result)

    return OneResult()


def unet() -> Any:
    """Three levels with instance norms; transposed convolutions and one bilinear upsampling on the way up."""
    import torch
    from torch import nn

    def block(width_in: int, width: int) -> Any:
        layers: list[Any] = []
        for source in (width_in, width):
            layers += [nn.Conv2d(source, width, 3, padding=1), nn.InstanceNorm2d(width, affine=True), nn.LeakyReLU(0.1)]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([block(3, 16), block(16, 32), block(32, 64)])
            self.middle = block(64, 128)
            up = [nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)]
            self.up = nn.ModuleList([*up, nn.Upsample(scale_factor=2, mode="bilinear")])
            self.join = nn.ModuleList([block(128, 64), block(64, 32), block(48, 16)])
            self.end = nn.Conv2d(16, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for level in self.down:
                x = level(x)
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
            x = self.middle(x)
            for up, join in zip(self.up, self.join, strict=True):
                x = join(torch.cat([up(x), kept.pop()], 1))
            return self.end(x)

    return UNet()


def _lstm_classifier() -> Any:
    """Two bidirectional layers over 32 tokens."""
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(1000, 64)
            self.lstm = nn.LSTM(64, 128, 2, batch_first=True, bidirectional=True)
            self.end = nn.Linear(256, 5)

        def forward(self, x: Any) -> Any:
            hidden, _ = self.lstm(self.embedding(x))
            return self.end(hidden[:, -1])

    return Classifier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--dynamic", action="store_true", help="batches and lengths are symbols")
    options = parser.parse_args()
    import torch

    options.folder.mkdir(parents=True, exist_ok=True)
    for name, family in families().items():
        if options.only in name:
            torch.manual_seed(0)
            model, inputs = family.model().eval(), family.inputs()
            for parameter in model.parameters():
                if not parameter.any():  # a head of zeros would hide every difference
                    torch.nn.init.normal_(parameter, std=0.02)
            path = options.folder / f"{name}{'_dynamic' * options.dynamic}.onnx"
            if options.dynamic:  # torch takes a size of 1 for a constant
                inputs = tuple(torch.cat([tensor, tensor]) for tensor in inputs)
            axes = {place: torch.export.Dim(axis) for place, axis in enumerate(family.dynamic)}
            shapes = (axes,) if options.dynamic else None
            with torch.no_grad():
                exported = torch.onnx.export(
                    model, inputs, dynamo=True, input_names=["x"], dynamic_shapes=shapes, verbose=False
                )
            assert exported is not None
            exported.save(str(path), external_data=False)
            np.savez(path.with_suffix(".npz"), x=inputs[0].numpy())
            print(f"{path}")


if __name__ == "__main__":
    main()
