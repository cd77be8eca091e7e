"""Models of torch with random weights, small and in their true sizes, for `bench.torch_models`.

Needs torch, torchvision and transformers. Dropout is off, so that eager and compiled models can be compared.
"""

# mypy: allow-subclassing-any, allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bench.export_models import import_torchvision, unet

SMALL_IMAGE = 64
"""Pixels along an axis of a small image. With 32, a batch norm of the last layers has two elements per channel, and the
gradients are rounding errors."""


class Family(NamedTuple):
    """A model and a batch, built when they are wanted. small: whether to build the small ones.

    inputs: the keywords of the model's forward function. loss: from the model's results and the batch to the loss.
    """

    model: Callable[[bool], Any]
    inputs: Callable[[bool], Mapping[str, Any]]
    loss: Callable[[Any, Mapping[str, Any]], Any]


def families() -> dict[str, Family]:
    """All families by name."""
    import_torchvision()  # before transformers, which imports torchvision
    return {
        "bert": Family(_bert, _tokens(128), _own_loss),
        "gpt2": Family(_gpt2, _tokens(128), _own_loss),
        "llama": Family(_llama, _tokens(128), _own_loss),
        "t5": Family(_t5, _tokens(64), _own_loss),
        "mixture": Family(_mixture, _tokens(64), _own_loss),
        "vit": Family(_vit, _images("x", 224), _class_loss),
        "resnet50": Family(_resnet, _images("x", 224), _class_loss),
        "mobilenet_v3": Family(_mobilenet, _images("x", 224), _class_loss),
        "unet": Family(lambda small: unet(), _images("x", 128), _pixel_loss),
    }


def _tokens(length: int) -> Callable[[bool], Mapping[str, Any]]:
    def build(small: bool) -> Mapping[str, Any]:
        import torch

        ids = torch.randint(0, 100, (2, 16 if small else length))
        return {"input_ids": ids, "labels": ids}

    return build


def _images(name: str, size: int) -> Callable[[bool], Mapping[str, Any]]:
    def build(small: bool) -> Mapping[str, Any]:
        import torch

        return {name: torch.randn(2, 3, *(SMALL_IMAGE if small else size,) * 2)}

    return build


def _own_loss(results: Any, _: Mapping[str, Any]) -> Any:
    return results["loss"]


def _class_loss(scores: Any, batch: Mapping[str, Any]) -> Any:
    """Image k is of class k."""
    import torch

    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def _pixel_loss(scores: Any, batch: Mapping[str, Any]) -> Any:
    """The class of a pixel is whether its red is above 0."""
    import torch

    return torch.nn.functional.cross_entropy(scores, (batch["x"][:, 0] > 0).long())


def _bert(small: bool) -> Any:
    import transformers as hf

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    sizes |= {"vocab_size": 100}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return hf.BertForMaskedLM(hf.BertConfig(**(sizes if small else {}), **off))


def _gpt2(small: bool) -> Any:
    import transformers as hf

    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100}
    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**(sizes if small else {}), **off))


def _llama(small: bool) -> Any:
    import transformers as hf

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    large = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}
    heads = {"num_key_value_heads": 2 if small else 4, "vocab_size": 100 if small else 32000, "use_cache": False}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**(sizes if small else large), **heads))


def _t5(small: bool) -> Any:
    import transformers as hf

    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
    off = {"dropout_rate": 0.0, "use_cache": False, "decoder_start_token_id": 0}
    return hf.T5ForConditionalGeneration(hf.T5Config(**(sizes if small else {}), **off))


def _mixture(small: bool) -> Any:
    import transformers as hf

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    large = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8}
    more = {"num_key_value_heads": 2, "vocab_size": 100 if small else 32000, "use_cache": False}
    experts = {"num_local_experts": 4 if small else 8, "num_experts_per_tok": 2}
    return hf.MixtralForCausalLM(hf.MixtralConfig(**(sizes if small else large), **more, **experts))


def _vit(small: bool) -> Any:
    models = import_torchvision().models
    if not small:
        return models.vit_b_16(weights=None)
    sizes = {
        "image_size": SMALL_IMAGE,
        "patch_size": 8,
        "num_layers": 2,
        "num_heads": 4,
        "hidden_dim": 64,
        "mlp_dim": 128,
    }
    return models.VisionTransformer(**sizes, num_classes=10)


def _resnet(small: bool) -> Any:
    models = import_torchvision().models
    if not small:
        return models.resnet50(weights=None)
    return models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=10)


def _mobilenet(small: bool) -> Any:
    models = import_torchvision().models
    if not small:
        return models.mobilenet_v3_large(weights=None, dropout=0.0)
    return models.mobilenet_v3_small(weights=None, num_classes=10, dropout=0.0)
