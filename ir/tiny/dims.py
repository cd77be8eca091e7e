"""Sizes that a program leaves unsaid: what follows from the shapes around them, and what a call's inputs tell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

from ir.diagnostics import Kind, fail
from ir.dtype import TensorType
from ir.tiny.graph import STAGE, Node
from ir.tiny.parse import Source

Known = Mapping[str, int]
Size: TypeAlias = int | str

WHOLE = -1
"""In a RESHAPE: the size that makes the elements come out."""


def free_dims(source: Source, dims: Known | None = None) -> tuple[str, ...]:
    """The symbols that have no size yet, in order of appearance; `bind` may still infer some."""
    known = {**source.dims, **(dims or {})}
    return tuple(symbol for symbol in source.symbols if symbol not in known)


def infer_dims(source: Source, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Sizes by symbol from the inputs' shapes at a call, together with the program's own `dims`.

    Raises:
        EqsatError: InputMismatch for a missing or unknown input, and what `match_shapes` finds.
    """
    declared = {node.arg["tensor_id"]: node.arg["shape"] for node in source.uops if node.uop == "INPUT"}
    missing, unknown = sorted(declared.keys() - shapes.keys()), sorted(shapes.keys() - declared.keys())
    if missing or unknown:
        wrong: dict[str, Any] = {name: found for name, found in (("missing", missing), ("unknown", unknown)) if found}
        fail(Kind.INPUT_MISMATCH, STAGE, f"inputs are {' or '.join(wrong)}", **wrong)
    return match_shapes(declared, shapes, source.dims)


def match_shapes(
    declared: Mapping[str, Sequence[Size]], shapes: Mapping[str, tuple[int, ...]], known: Known
) -> dict[str, int]:
    """The sizes in `known`, and those that the given shapes bind; `declared` holds at least the tensors in `shapes`.

    Raises:
        EqsatError: InputMismatch for a wrong rank or a wrong fixed size; AxisSizeMismatch where one symbol would
            have two sizes.
    """
    dims = dict(known)
    for tensor, found in shapes.items():
        wanted = declared[tensor]
        if len(found) != len(wanted) or any(
            isinstance(size, int) and size != given for size, given in zip(wanted, found, strict=True)
        ):
            fail(
                Kind.INPUT_MISMATCH,
                STAGE,
                f"the input {tensor!r} has another shape",
                at=tensor,
                expected=wanted,
                found=found,
            )
        for symbol, size in zip(wanted, found, strict=True):
            if isinstance(symbol, str) and dims.setdefault(symbol, size) != size:
                fail(
                    Kind.AXIS_SIZE_MISMATCH,
                    STAGE,
                    f"{symbol} is {dims[symbol]} and {size}",
                    at=tensor,
                    expected=wanted,
                    found=found,
                )
    return dims


def implied(node: Node, src: Sequence[TensorType], known: Known) -> dict[str | int, int]:
    """The sizes that a RESHAPE or EXPAND of a known source leaves only one choice for; WHOLE among the keys."""
    if node.uop not in ("RESHAPE", "EXPAND"):
        return {}
    shape: list[Size] = [known.get(size, size) if isinstance(size, str) else size for size in node.arg["result_shape"]]
    if node.uop == "EXPAND":
        return _expanded(src[0].shape, shape)
    unknown = [size for size in shape if not _is_known(size)]
    if len(set(unknown)) == len(unknown) == 1:
        return _quotient(src[0].size, shape)
    return _split(src[0].shape, shape)


def _is_known(size: Size) -> TypeGuard[int]:
    return isinstance(size, int) and size != WHOLE


def _expanded(old: Sequence[int], new: Sequence[Size]) -> dict[str | int, int]:
    """Axes of more than one element keep their size. Ranks must agree: unequal ones align by what is not known yet."""
    if len(old) != len(new):
        return {}
    return {wanted: size for size, wanted in zip(old, new, strict=True) if size != 1 and not _is_known(wanted)}


def _quotient(size: int, shape: Sequence[Size]) -> dict[str | int, int]:
    """The one unknown of a product, if it divides."""
    rest = math.prod(each for each in shape if isinstance(each, int) and each != WHOLE)
    unknown = next(each for each in shape if not _is_known(each))
    return {unknown: size // rest} if rest and size % rest == 0 else {}


def _split(old: Sequence[int], new: Sequence[Size]) -> dict[str | int, int]:
    """Several unknowns: each old axis splits into a run of new axes (1s aside) and only one set of sizes does it."""
    if 0 in old:
        return {}
    kept, wanted = tuple(size for size in old if size != 1), tuple(size for size in new if size != 1)
    if math.prod(kept) == math.prod(filter(_is_known, wanted)):
        return {size: 1 for size in wanted if not _is_known(size)}
    solutions = list(_alignments(kept, wanted))
    first = solutions[0] if solutions else None
    return dict(first) if first is not None and all(each == first for each in solutions) else {}


def _alignments(old: tuple[int, ...], new: tuple[Size, ...]) -> Iterator[dict[str | int, int] | None]:
    """Per way to cut `new` into runs, one per old axis, the sizes it gives; None for a way that leaves a choice."""
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
    """The unknowns whose product is `quotient`; None when there is a choice."""
    if quotient == 1:
        return dict.fromkeys(unknown, 1)
    return {unknown[0]: quotient} if len(unknown) == 1 else None
