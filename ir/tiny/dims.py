"""Sizes that a program does not state: inferred from the shapes around them, and from the inputs of a call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.tiny.graph import STAGE, Node
from ir.tiny.source import Source

Known = Mapping[str, int]
Size: TypeAlias = int | str

WHOLE = -1
"""In a RESHAPE: the size that keeps the number of elements."""


def require_sizes(missing: Sequence[str], stage: str) -> None:
    """Raises EqsatError, UnboundDim, if any symbol has no size. missing: the symbols that have none."""
    if missing:
        hint = f"dims={{{missing[0]!r}: …}}"
        fail(Kind.UNBOUND_DIM, stage, f"no size is given for {', '.join(missing)}", hint=hint, missing=tuple(missing))


def free_dims(source: Source, dims: Known | None = None) -> tuple[str, ...]:
    """The symbols that have no size yet, in order of appearance; `bind` may still infer some."""
    known = {**source.dims, **(dims or {})}
    return tuple(symbol for symbol in source.symbols if symbol not in known)


def infer_dims(source: Source, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Sizes by symbol from the inputs' shapes at a call, together with the program's own `dims`.

    Raises:
        EqsatError: InputMismatch for a missing or unknown input, and the errors of `match_shapes`.
    """
    declared = {tensor: node.arg["shape"] for tensor, node in source.inputs.items()}
    missing, unknown = sorted(declared.keys() - shapes.keys()), sorted(shapes.keys() - declared.keys())
    if missing or unknown:
        wrong: dict[str, Any] = {name: names for name, names in (("missing", missing), ("unknown", unknown)) if names}
        fail(Kind.INPUT_MISMATCH, STAGE, f"inputs are {' or '.join(wrong)}", **wrong)
    return match_shapes(declared, shapes, source.dims)


def match_shapes(
    declared: Mapping[str, Sequence[Size]], shapes: Mapping[str, tuple[int, ...]], known: Known
) -> dict[str, int]:
    """The sizes in `known` and the sizes bound by the given shapes; `declared` has at least the tensors of `shapes`.

    Raises:
        EqsatError: InputMismatch for a wrong rank or a wrong fixed size; AxisSizeMismatch where one symbol would
            have two sizes.
    """
    dims = dict(known)
    for tensor, shape in shapes.items():
        wanted = declared[tensor]
        if len(shape) != len(wanted) or any(
            isinstance(size, int) and size != given for size, given in zip(wanted, shape, strict=True)
        ):
            fail(
                Kind.INPUT_MISMATCH,
                STAGE,
                f"the input {tensor!r} has another shape",
                at=tensor,
                expected=wanted,
                found=shape,
            )
        for symbol, size in zip(wanted, shape, strict=True):
            if isinstance(symbol, str) and dims.setdefault(symbol, size) != size:
                fail(
                    Kind.AXIS_SIZE_MISMATCH,
                    STAGE,
                    f"{symbol} is {dims[symbol]} and {size}",
                    at=tensor,
                    expected=wanted,
                    found=shape,
                )
    return dims


def implied_sizes(node: Node, src: Sequence[TensorType], known: Known) -> dict[str | int, int]:
    """The sizes of a RESHAPE or EXPAND that follow from its source; WHOLE may be a key."""
    if node.uop not in ("RESHAPE", "EXPAND"):
        return {}
    shape: list[Size] = [known.get(size, size) if isinstance(size, str) else size for size in node.arg["result_shape"]]
    if node.uop == "EXPAND":
        return _sizes_of_expand(src[0].shape, shape)
    unknown = [size for size in shape if not _is_known(size)]
    if len(set(unknown)) == len(unknown) == 1:
        return _sizes_of_product(src[0].size, shape)
    return _sizes_of_split(src[0].shape, shape)


def _is_known(size: Size) -> TypeGuard[int]:
    return isinstance(size, int) and size != WHOLE


def _sizes_of_expand(old: Sequence[int], new: Sequence[Size]) -> dict[str | int, int]:
    """Axes of more than one element keep their size. Ranks must agree: alignment by names is not known yet."""
    if len(old) != len(new):
        return {}
    return {wanted: size for size, wanted in zip(old, new, strict=True) if size != 1 and not _is_known(wanted)}


def _sizes_of_product(size: int, shape: Sequence[Size]) -> dict[str | int, int]:
    """The only unknown size of a product, if the known ones divide it."""
    rest = math.prod(filter(_is_known, shape))
    unknown = next(size for size in shape if not _is_known(size))
    return {unknown: size // rest} if rest and size % rest == 0 else {}


def _sizes_of_split(old: Sequence[int], new: Sequence[Size]) -> dict[str | int, int]:
    """Several unknown sizes, if every old axis splits into a run of new axes (1s aside) in only one way."""
    if 0 in old:
        return {}
    kept, wanted = tuple(size for size in old if size != 1), tuple(size for size in new if size != 1)
    if math.prod(kept) == math.prod(filter(_is_known, wanted)):
        return {size: 1 for size in wanted if not _is_known(size)}
    solutions = list(_alignments(kept, wanted))
    first = solutions[0] if solutions else None
    return dict(first) if first is not None and all(solution == first for solution in solutions) else {}


def _alignments(old: tuple[int, ...], new: tuple[Size, ...]) -> Iterator[dict[str | int, int] | None]:
    """For every way to cut `new` into runs, one per old axis, the sizes that follow; None for a way with a choice."""
    if not old:
        if not new:
            yield {}
        return
    for length in range(1, len(new) - len(old) + 2):
        known = math.prod(size for size in new[:length] if _is_known(size))
        unknown = [size for size in new[:length] if not _is_known(size)]
        if not known or old[0] % known or (not unknown and old[0] != known):
            continue
        here = _shares(old[0] // known, unknown)
        for rest in _alignments(old[1:], new[length:]):
            if here is None or rest is None:
                yield None
            elif all(here.get(key, size) == size for key, size in rest.items()):
                yield {**here, **rest}


def _shares(quotient: int, unknown: Sequence[Size]) -> dict[str | int, int] | None:
    """The unknown sizes whose product is `quotient`; None if there is a choice."""
    if quotient == 1:
        return dict.fromkeys(unknown, 1)
    return {unknown[0]: quotient} if len(unknown) == 1 else None
