"""The systems that eqsat is compared with on a GPU. A peer builds a runner of a case, or says why it cannot."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.device.clock import Runner
from bench.gpu.case import Case

Builder = Callable[[Case, Sequence[Any]], Runner]
"""(case, torch tensors in the order of its inputs) → a runner that returns the result."""


class AbsentError(Exception):
    """The peer is not installed, or cannot run the case; the text says why."""


def peers_of(group: str) -> tuple[str, ...]:
    """The names of the peers of a group of cases."""
    return {"gemm": _PRODUCTS, "attention": _ATTENTION}.get(group, _OTHERS)


def runner(name: str, case: Case, tensors: Sequence[Any]) -> Runner:
    """The runner of a peer, after its first run.

    Raises:
        AbsentError: with the reason; a peer that fails does not fail the bench.
    """
    try:
        run = _PEERS[name](case, tensors)
        run()
        return run
    except AbsentError:
        raise
    except Exception as error:  # a foreign library may fail in any way
        raise AbsentError(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}") from error


def _need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise AbsentError(f"{package} is not installed")


def _torch(case: Case) -> Any:
    """torch, set to round products of fp32 to tf32 if the case does."""
    _need("torch")
    import torch

    torch.set_float32_matmul_precision("high" if case.tf32 else "highest")
    return torch


def _eager(case: Case, tensors: Sequence[Any]) -> Runner:
    """cuBLAS, cuDNN, scaled_dot_product_attention's own choice, or torch's kernels."""
    torch = _torch(case)

    def run() -> Any:
        with torch.inference_mode():
            return case.theirs(torch, *tensors)

    return run


def _inductor(case: Case, tensors: Sequence[Any], options: Mapping[str, Any]) -> Runner:
    """torch.compile; the first run compiles."""
    torch = _torch(case)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *given: case.theirs(torch, *given), dynamic=False, options=dict(options) or None)

    def run() -> Any:
        with torch.inference_mode():
            return compiled(*tensors)

    return run


def _compile(case: Case, tensors: Sequence[Any]) -> Runner:
    return _inductor(case, tensors, {})


def _triton(case: Case, tensors: Sequence[Any]) -> Runner:
    """The best of Inductor's templates of products in Triton, without cuBLAS."""
    _need("triton")
    return _inductor(case, tensors, {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"})


def _cudnn_attention(case: Case, tensors: Sequence[Any]) -> Runner:
    _need("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    eager = _eager(case, tensors)

    def run() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return eager()

    return run


def _flash_attention(case: Case, tensors: Sequence[Any]) -> Runner:
    """The package of FlashAttention's authors; its layout has heads after tokens."""
    _need("flash_attn")
    from flash_attn import flash_attn_func

    q, k, v = (tensor.transpose(1, 2).contiguous() for tensor in tensors)
    return lambda: flash_attn_func(q, k, v, causal=case.causal).transpose(1, 2)


_PEERS: Mapping[str, Builder] = {
    "torch": _eager,
    "torch.compile": _compile,
    "triton": _triton,
    "cuDNN attention": _cudnn_attention,
    "flash-attn": _flash_attention,
}
_PRODUCTS = ("torch", "torch.compile", "triton")
_ATTENTION = ("torch", "cuDNN attention", "flash-attn")
_OTHERS = ("torch", "torch.compile")
PEERS = tuple(_PEERS)
"""The names of all peers."""
COMPILING = ("torch.compile", "triton")
"""Peers that take long before their first run."""
