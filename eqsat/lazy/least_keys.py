"""The least keys along an axis in order, one after the other: each is the least of those that are not below a bound,
and its successor is the next bound."""

from __future__ import annotations

from typing import Any

from eqsat.lazy.order_keys import Keys, is_less, positions_of

Tensor = Any
"""`eqsat.tensor.Tensor`, whose file imports this one."""


def least_keys(keys: Keys, count: int) -> Keys:
    """The `count` least of keys [a, n, b], no two of them equal along axis 1, as [count, a, b]."""

    def step(bound: Keys, _: None) -> tuple[Keys, Keys]:
        least = _least(keys, ~is_less(keys, tuple([key.unsqueeze(1) for key in bound])))
        return (*least[:-1], least[-1] + 1), least

    one = (keys[0].shape[0], keys[0].shape[2])
    lowest = tuple([key._constant(int(key.dtype.lowest), key.dtype).expand(one) for key in keys])
    result: Keys = keys[0]._loop(step, lowest, length=count)[1]
    return result


def least_keys_by_groups(keys: Keys, count: int, group: int) -> Keys:
    """As `least_keys`, where `group` divides n: the least keys stand in the `count` groups of neighbours whose least
    keys are the least. The passes over all keys become passes over the least keys of groups, and over these groups."""
    a, n, b = keys[0].shape
    grouped = tuple([key.reshape(a, n // group, group, b) for key in keys])
    least = _least(tuple([key.swapaxes(1, 2) for key in grouped]))
    groups = (positions_of(least_keys(least, count), n) // group).swapaxes(0, 1).unsqueeze(2)
    index = groups.expand((a, count, group, b))
    return least_keys(tuple([key.gather(1, index).reshape(a, count * group, b) for key in grouped]), count)


def _least(keys: Keys, stays: Tensor | None = None) -> Keys:
    """The least key along axis 1 among those that stay."""
    least: list[Tensor] = []
    for key in keys:
        kept = key if stays is None else key._choose(stays, key, int(key.dtype.highest))
        least.append(kept.amin(1))
        equal = key == least[-1].unsqueeze(1)
        stays = equal if stays is None else stays & equal
    return tuple(least)
