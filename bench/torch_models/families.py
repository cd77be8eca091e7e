"""Models of torch with random weights, small and in their true sizes.

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

Batch = Mapping[str, Any]
"""Keywords of a model's forward function."""


class Family(NamedTuple):
    """A model and a batch, built when they are wanted. small: whether to build the small ones.

    labels: the part that training adds to the batch. loss: from the results and the batch to the loss; None: the model
    is not trained here.
    """

    model: Callable[[bool], Any]
    inputs: Callable[[bool], Batch]
    loss: Callable[[Any, Batch], Any] | None = None
    labels: Callable[[Batch], Batch] = lambda batch: {}


def families() -> dict[str, Family]:
    """All families by name, first those that are trained."""
    import_torchvision()  # before transformers, which imports torchvision
    return {
        "bert": _language_model(_bert, 128),
        "gpt2": _language_model(_gpt2, 128),
        "llama": _language_model(_llama, 128),
        "t5": Family(_t5, _tokens(64, "input_ids", "decoder_input_ids"), _own_loss, _same_tokens),
        "mixture": _language_model(_mixture, 64),
        "vit": Family(_vit, _images("x", 224), _class_loss),
        "resnet50": Family(_resnet, _images("x", 224), _class_loss),
        "mobilenet_v3": Family(_mobilenet, _images("x", 224), _class_loss),
        "unet": Family(lambda small: unet(), _images("x", 128), _pixel_loss),
        "efficientnet_b0": Family(lambda small: _vision().efficientnet_b0(weights=None), _images("x", 224)),
        "convnext": Family(_convnext, _images("x", 224)),
        "swin": Family(_swin, _images("x", 224)),
        "deeplab": Family(_deeplab, _images("x", 224)),
        "detr": Family(_detr, _images("pixel_values", 224)),
        "whisper_encoder": Family(_whisper_encoder, _spectra),
        "clip": Family(_clip, lambda small: {**_tokens(77, "input_ids")(small), **_images("pixel_values", 224)(small)}),
        "distilbert": Family(_distilbert, _tokens(128, "input_ids")),
    }


def _vision() -> Any:
    return import_torchvision().models


def _language_model(model: Callable[[bool], Any], length: int) -> Family:
    """A model of transformers that computes the loss of its own next tokens."""
    return Family(model, _tokens(length, "input_ids"), _own_loss, _same_tokens)


def _tokens(length: int, *names: str) -> Callable[[bool], Batch]:
    def build(small: bool) -> Batch:
        import torch

        return dict.fromkeys(names, torch.randint(0, 100, (2, 16 if small else length)))

    return build


def _same_tokens(batch: Batch) -> Batch:
    return {"labels": batch["input_ids"]}


def _images(name: str, size: int) -> Callable[[bool], Batch]:
    def build(small: bool) -> Batch:
        import torch

        return {name: torch.randn(2, 3, *(SMALL_IMAGE if small else size,) * 2)}

    return build


def _spectra(small: bool) -> Batch:
    """Thirty seconds of sound, or less than one, as 80 bands."""
    import torch

    return {"input_features": torch.randn(1, 80, 60 if small else 3000)}


def _own_loss(results: Any, _: Batch) -> Any:
    return results["loss"]


def _class_loss(scores: Any, _: Batch) -> Any:
    """Image k is of class k."""
    import torch

    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def _pixel_loss(scores: Any, batch: Batch) -> Any:
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
    models = _vision()
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
    models = _vision()
    if not small:
        return models.resnet50(weights=None)
    return models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=10)


def _mobilenet(small: bool) -> Any:
    models = _vision()
    if not small:
        return models.mobilenet_v3_large(weights=None, dropout=0.0)
    return models.mobilenet_v3_small(weights=None, num_classes=10, dropout=0.0)


def _convnext(small: bool) -> Any:
    models = _vision()
    if not small:
        return models.convnext_tiny(weights=None, stochastic_depth_prob=0.0)
    blocks = [models.convnext.CNBlockConfig(32, 64, 1), models.convnext.CNBlockConfig(64, None, 1)]
    return models.ConvNeXt(blocks, num_classes=10)


def _swin(small: bool) -> Any:
    models = _vision()
    if not small:
        return models.swin_t(weights=None)
    sizes = {"patch_size": [4, 4], "embed_dim": 32, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
    return models.SwinTransformer(**sizes, stochastic_depth_prob=0.0, num_classes=10)


def _deeplab(small: bool) -> Any:
    """On MobileNetV3 if small, else on ResNet-50."""
    models = _vision().segmentation
    build = models.deeplabv3_mobilenet_v3_large if small else models.deeplabv3_resnet50
    return build(weights=None, weights_backbone=None)


def _detr(small: bool) -> Any:
    """Without its post-processing."""
    import transformers as hf

    backbone = hf.ResNetConfig(out_features=["stage4"])
    own = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": backbone}
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "num_queries": 10, "d_model": 64}
    return hf.DetrForObjectDetection(hf.DetrConfig(**own, **(sizes if small else {})))


def _whisper_encoder(small: bool) -> Any:
    import transformers as hf

    width, heads, layers = (64, 4, 2) if small else (512, 8, 6)
    sizes = {"d_model": width, "encoder_layers": layers, "encoder_ffn_dim": 2 * width if small else 4 * width}
    sizes |= {"encoder_attention_heads": heads, "decoder_attention_heads": heads, "decoder_layers": 1}
    sizes |= {"max_source_positions": 30} if small else {}
    return hf.WhisperModel(hf.WhisperConfig(**sizes)).encoder


def _clip(small: bool) -> Any:
    import transformers as hf

    if not small:
        return hf.CLIPModel(hf.CLIPConfig())
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = {**sizes, "vocab_size": 100, "eos_token_id": 99, "bos_token_id": 98, "pad_token_id": 1}
    image = {**sizes, "image_size": SMALL_IMAGE, "patch_size": 16}
    return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=image, projection_dim=32))


def _distilbert(small: bool) -> Any:
    import transformers as hf

    sizes = {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 100}
    off = {"dropout": 0.0, "attention_dropout": 0.0}
    return hf.DistilBertForMaskedLM(hf.DistilBertConfig(**(sizes if small else {}), **off))
