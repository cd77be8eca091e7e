"""torch.multinomial by operators that become draws."""

from __future__ import annotations

from typing import Any


def multinomial(weights: Any, count: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """`count` positions of each row, drawn in proportion to the weights. NotImplemented with a generator of its own.

    Raises, when the graph runs:
        RuntimeError: as torch, for weights below 0 or not finite, and for rows whose weights are all 0.
    """
    import torch

    if generator is not None:
        return NotImplemented
    wide = weights if weights.dtype == torch.float64 else weights.float()
    is_valid = (wide >= 0) & (wide < torch.inf)
    torch._assert_async(is_valid.all(), "probability tensor contains either `inf`, `nan` or element < 0")
    torch._assert_async((wide.sum(-1) > 0).all(), "invalid multinomial distribution (sum of probabilities <= 0)")
    return _draw_with_replacement(wide, count) if replacement and count > 1 else _draw_different(wide, count)


def _draw_different(weights: Any, count: int) -> Any:
    """The positions of the greatest of weight / e, where e has an exponential distribution: their order is that of
    draws without replacement."""
    import torch

    ratios = weights / -torch.rand_like(weights).log()
    return ratios.argmax(-1, keepdim=True) if count == 1 else ratios.topk(count).indices


def _draw_with_replacement(weights: Any, count: int) -> Any:
    """The positions at which the running sum of the weights first exceeds random parts of the sum. A position of
    weight 0 is never one: a part that is rounded to the whole sum takes the last position with a weight."""
    import torch

    sums = weights.cumsum(-1)
    whole = sums[..., -1:]
    parts = torch.rand((*weights.shape[:-1], count), dtype=weights.dtype, device=weights.device) * whole
    last = (sums < whole).sum(-1, keepdim=True)
    return torch.minimum(torch.searchsorted(sums, parts, right=True), last)
