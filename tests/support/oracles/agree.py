"""The rule by which tests judge results of kernels against playback.

A rewritten program may round at other places, sum in another order, fuse a multiplication into an addition, keep a
narrow float wide, and flush denormals. So the allowed error of an element is the effect of this freedom on that
element, found by Monte Carlo arithmetic (Parker, 1997). A sample is a playback in fp64 with random changes: a result
that its dtype cannot hold exactly is moved by about its rounding error; every sum and product has a random order, in
the accumulator's precision or in fp64; overflow and denormals are kept or cut. Rounded and wide playback are two more
samples. Where products may round their operands to tf32, samples move the operands by as much.

Every value is computed twice in this way, and some readers take the second one. With `once`, a value has one rounding
for all its readers: then tests can rely on some element being equal to the maximum.

- An element on which all samples agree to be NaN, inf, −inf or finite must be of that class; integers and bools on
  which all samples agree must be equal. Where samples disagree, the element is ill-conditioned and is not judged.
- Above the level exact, an infinity and a NaN that comes from infinities may replace each other, and such a NaN may be
  a number (docs/rules.md). A NaN comes from infinities if a playback that uses 1e60 for an infinity has a number there.
- A finite element may differ from wide playback by TOLERANCE · max(|element|, median of the output) plus SLACK times
  the largest deviation of a sample.

The median, not the maximum, stands for the norm: one huge element must not excuse errors in all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from eqsat.runtime.verify import TOLERANCE
from ir.dtype import DType, TensorType, dtype, fp64, promote
from ir.tiny.graph import Graph, Imm, Node, Ref
from ir.tiny.playback import playback
from ir.tiny.tf32 import summed_products, to_tf32
from ir.uop.playback import Array, convert, storage
from ir.uop.table import ELEMENTARY, UOpKind

SLACK = 4.0
SAMPLES = 4
SECOND_LOOK = 96
"""Samples before a result is called wrong: rare orders and roundings get their chance."""

ROUNDED = (UOpKind.UNARY, UOpKind.BINARY, UOpKind.CAST, UOpKind.REDUCE, UOpKind.SCAN, UOpKind.SCATTER, UOpKind.INDEX)
EXACT = ("NEG", "ABS", "RELU", "FLOOR", "CEIL", "ROUND", "MAX", "MIN")


@dataclass(frozen=True)
class Verdict:
    """How one output compares. `wrong` counts elements; `judged` those that are well-conditioned, of `size`."""

    wrong: int
    judged: int
    size: int
    note: str = ""


def disagreement(
    graph: Graph,
    inputs: Mapping[str, Array],
    got: Sequence[Array],
    seed: int = 0,
    *,
    tf32: bool = False,
    once: bool = False,
    exact: bool = True,
) -> list[Verdict]:
    """A verdict per output of `graph` on these inputs; `tf32`: of a program that may round products' operands to it;
    `once`: of one in which a value has one rounding; `exact`: of one whose NaN and infinities are those of playback."""
    rng, products = np.random.default_rng(seed), summed_products(graph) if tf32 else frozenset()
    wide, rounded = playback(graph, inputs, wide=True), playback(graph, inputs)
    near = _verdicts(graph, wide, [rounded], got)
    if once and not any(verdict.wrong for verdict in near):
        return near
    samples = [rounded, *(sampled(graph, inputs, rng, products, once=once) for _ in range(SAMPLES))]
    verdicts = _verdicts(graph, wide, samples, got)
    if any(verdict.wrong for verdict in verdicts):
        samples += [sampled(graph, inputs, rng, products, once=once) for _ in range(SECOND_LOOK)]
        verdicts = _verdicts(graph, wide, samples, got)
    if not exact and any(verdict.wrong for verdict in verdicts):
        verdicts = _verdicts(graph, wide, samples, excuse_infinities(graph, inputs, wide, got))
    return verdicts


def excuse_infinities(
    graph: Graph, inputs: Mapping[str, Array], wide: Sequence[Array], got: Sequence[Array]
) -> Iterator[Array]:
    """The results, with the NaN or the infinity of `wide` where that comes of infinities and may be another; and where
    a comparison saw such a value, so that playback of numbers gives another answer, with the answer of `wide`."""
    decided = _decided(graph)
    for ref, truth, numbers, result in zip(graph.outputs, wide, _of_numbers(graph, inputs), got, strict=True):
        if result.shape != truth.shape:
            yield result
            continue
        if not graph.types[ref].dtype.is_float:
            yield np.where(numbers != truth, truth, result).astype(result.dtype)
            continue
        of_infinities = ~np.isnan(numbers)
        excused = np.isnan(truth) & of_infinities
        excused |= np.isinf(truth) & of_infinities & ~np.isfinite(result.astype(np.float64))
        if ref in decided:
            excused |= np.isfinite(truth) & of_infinities & ~np.isclose(numbers, truth, rtol=1e-6, atol=1e-30)
        yield np.where(excused, truth, result.astype(np.float64)).astype(result.dtype)


def _decided(graph: Graph) -> set[Ref]:
    """The values that depend on values which are no floats: on comparisons, or on integers made of floats."""
    decided: set[Ref] = set()
    for node in graph.nodes:
        refs = [source for source in node.src if not isinstance(source, Imm)]
        if not graph.types[node.id].dtype.is_float or not decided.isdisjoint(refs):
            decided.add(node.id)
    return decided


def _of_numbers(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs in fp64 where ±1e60 stands for every infinity."""
    values: dict[str, Array] = {}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            result, types = graph.types[node.id], graph.operand_types(node)
            if node.uop == "INPUT":
                value = _wide(inputs[node.arg["tensor_id"]], result.dtype)
            else:
                operands = [
                    _immediate(source, type_.dtype) if isinstance(source, Imm) else values[source]
                    for source, type_ in zip(node.src, types, strict=True)
                ]
                value = np.broadcast_to(node.op.apply(operands, node.arg, result, True), result.shape)
            values[node.id] = np.clip(value, -1e60, 1e60) if result.dtype.is_float else value
    return [values[ref] for ref in graph.outputs]


def _verdicts(
    graph: Graph, wide: Sequence[Array], samples: Sequence[Sequence[Array]], got: Iterable[Array]
) -> list[Verdict]:
    results = zip(graph.outputs, wide, zip(*samples, strict=True), got, strict=True)
    with np.errstate(all="ignore"):
        return [_verdict(graph.types[ref].dtype, truth, others, result) for ref, truth, others, result in results]


def _verdict(element: DType, truth: Array, samples: Sequence[Array], got: Array) -> Verdict:
    if got.shape != truth.shape or got.dtype != element.numpy:
        return Verdict(
            max(1, truth.size), truth.size, truth.size, f"{got.dtype}{got.shape}, not {element}{truth.shape}"
        )
    if not element.is_float:
        judged = np.logical_and.reduce([sample == truth for sample in samples])
        wrong = judged & (got != truth)
        return _summed(wrong, judged, got, truth)
    exact, *others = (_narrow(sample, element) for sample in (truth, *samples))
    actual = got.astype(np.float64)
    judged = np.logical_and.reduce([_class(other) == _class(exact) for other in others])
    finite = judged & np.isfinite(exact)
    spread = np.maximum.reduce([np.abs(other - exact) for other in others])
    norm = float(np.median(np.abs(exact[np.isfinite(exact)]))) if np.isfinite(exact).any() else 0.0
    allowed = TOLERANCE[element.name] * np.maximum(np.abs(exact), norm) + SLACK * spread + _least(element)
    off = finite & ~(np.abs(actual - exact) <= allowed)
    return _summed(off | (judged & (_class(actual) != _class(exact))), judged, got, exact)


def _summed(wrong: Array, judged: Array, got: Array, truth: Array) -> Verdict:
    note = ""
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        note = f"{int(wrong.sum())} of {wrong.size} elements, the first at {list(at)}: {got[at]}, not {truth[at]}"
    return Verdict(int(wrong.sum()), int(judged.sum()), int(judged.size), note)


def _class(x: Array) -> Array:
    """0 finite, 1 inf, −1 −inf, 2 NaN."""
    return np.where(np.isnan(x), 2, np.where(np.isinf(x), np.sign(x), 0))


def sampled(
    graph: Graph,
    inputs: Mapping[str, Array],
    rng: np.random.Generator,
    tf32: Set[Ref] = frozenset(),
    *,
    once: bool = False,
) -> tuple[Array, ...]:
    """The outputs (floats as fp64) of one way in which the graph might be computed, the operands of the multiplications
    `tf32` rounded to that; `once`: every value once, equal uops on equal operands together."""
    sampler = _Sampler(rng)
    values: dict[str, list[Array]] = {}
    same = _same_values(graph) if once else {}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            result = graph.types[node.id]
            if same.get(node.id, node.id) != node.id:
                values[node.id] = values[same[node.id]]
                continue
            if node.uop == "INPUT":
                array = _wide(inputs[node.arg["tensor_id"]], result.dtype)
                values[node.id] = [sampler.flushed(array, result.dtype)] * 2
                continue
            types, slots = graph.operand_types(node), range(len(node.src))
            values[node.id] = []
            for own in range(1 if once else 2):
                operands = [sampler.operand(node, slot, types, values, own) for slot in slots]
                if node.id in tf32:
                    operands = [sampler.coarser(operand) for operand in operands]
                values[node.id].append(sampler.computed(node, types, result, operands))
            values[node.id] *= 2 if once else 1
    return tuple(values[ref][0] for ref in graph.outputs)


def _same_values(graph: Graph) -> dict[Ref, Ref]:
    """Every node → the first that is the same uop on the same operands."""
    first: dict[object, Ref] = {}
    same: dict[Ref, Ref] = {}
    for node in graph.nodes:
        operands = tuple(
            (source.value, type(source.value)) if isinstance(source, Imm) else same[source] for source in node.src
        )
        same[node.id] = first.setdefault((node.uop, operands, node.arg, graph.types[node.id].dtype), node.id)
    return same


class _Sampler:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.flush = float(rng.choice([0.0, 0.5, 1.0]))  # a library's lanes may flush where the vector unit does not

    def coin(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def operand(
        self, node: Node, slot: int, types: Sequence[TensorType], values: Mapping[str, list[Array]], own: int
    ) -> Array:
        """An operand, seldom of the other of its two computations: if often, both would soon be one."""
        each, element = node.src[slot], types[slot].dtype
        if isinstance(each, Imm):
            return self.flushed(_immediate(each, element), element)
        other = node.op.kind is not UOpKind.MOVEMENT and self.rng.random() < 0.1
        return self.flushed(values[each][1 - own if other else own], element)

    def computed(self, node: Node, types: Sequence[TensorType], result: TensorType, operands: list[Array]) -> Array:
        """One uop, rounded and summed in some way."""
        element = result.dtype
        if node.uop == "FDIV" and element.is_float and self.flush and self.coin():
            divisor = np.asarray(1.0 / operands[1])
            value = operands[0] * self.flushed(divisor, element.accumulator)
        elif _accumulates(node) and element.is_float:
            value = self.accumulated(node, operands[0], types[0].dtype, element)
        elif node.uop == "SCATTER" and element.is_float and self.coin():
            narrow = [operand if slot == 1 else operand.astype(element.numpy) for slot, operand in enumerate(operands)]
            value = node.op.apply(narrow, node.arg, result, False).astype(np.float64)
        else:
            value = node.op.apply(operands, node.arg, result, True)
        if node.uop == "MUL" and element is fp64 and self.coin():
            numbers = np.isfinite(operands[0]) & np.isfinite(operands[1])
            value = np.where(numbers, np.nan_to_num(value), value)  # a multiply-add holds what fp64 cannot
        value = np.broadcast_to(value, result.shape)
        if element.is_float and node.op.kind in ROUNDED and node.uop not in EXACT:
            return self.jittered(value, element, 4.0 if node.uop in ELEMENTARY else 1.0)
        return self.flushed(value, element)

    def flushed(self, x: Array, element: DType) -> Array:
        if not (self.flush and element.is_float):
            return x
        tiny = np.abs(x) < float(ml_dtypes.finfo(element.numpy).smallest_normal)
        return np.where(tiny & (self.rng.random(x.shape) < self.flush), np.copysign(0.0, x), x)

    def jittered(self, x: Array, element: DType, ulps: float) -> Array:
        """`x`, where `element` cannot hold it exactly, moved by up to `ulps` of its units in the last place, to what
        memory or a register holds: else a maximum would round what its readers compare it with."""
        if self.coin():
            x = np.where(np.isinf(_narrow(x, element)), _narrow(x, element), x)
        noise = self.rng.uniform(-ulps, ulps, x.shape) * float(ml_dtypes.finfo(element.numpy).eps)
        moved = np.where(_is_exact(x, element) | ~np.isfinite(x), x, x * (1 + noise))
        held = _narrow(moved, element if self.coin() else element.accumulator)
        return self.flushed(np.where(np.isfinite(held), held, moved), element)

    def coarser(self, x: Array) -> Array:
        """`x`, where tf32 cannot hold it, moved by up to half of its unit in the last place."""
        return np.where(to_tf32(x) == x, x, x * (1 + self.rng.uniform(-1, 1, x.shape) * 2.0**-11))

    def accumulated(self, node: Node, x: Array, source: DType, result: DType) -> Array:
        accumulator = promote(source.accumulator, result.accumulator) or result
        carrier = (accumulator if self.coin() else fp64).numpy
        if node.op.kind is UOpKind.SCAN:
            return self._scanned(node, x.astype(carrier)).astype(np.float64)
        axes = tuple(node.arg["axes"])
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        sizes = [*(x.shape[axis] for axis in kept), math.prod(x.shape[axis] for axis in axes)]
        rows = x.transpose([*kept, *axes]).reshape(sizes).astype(carrier)
        if "init" in node.arg:
            rows = np.concatenate([rows, np.full((*rows.shape[:-1], 1), node.arg["init"], carrier)], axis=-1)
        ufunc = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}[node.arg["op"]]
        if not rows.shape[-1]:
            start = {"SUM": 0.0, "PROD": 1.0, "MAX": -np.inf, "MIN": np.inf}[node.arg["op"]]
            return np.full(rows.shape[:-1], start)
        ordered = rows[..., self.rng.permutation(rows.shape[-1])]
        return self._running(ufunc, ordered)[..., -1].astype(np.float64)

    def _scanned(self, node: Node, x: Array) -> Array:
        """The scan in blocks, each scanned by itself, in order or by doubling, and then joined to what came before."""
        ufunc = {"CUMSUM": np.add, "CUMPROD": np.multiply, "CUMMAX": np.maximum}[node.uop]
        rows = np.moveaxis(x, node.arg["axis"], -1)
        block = int(self.rng.integers(1, rows.shape[-1] + 1)) if rows.shape[-1] else 1
        done: list[Array] = []
        for low in range(0, rows.shape[-1], block):
            part = rows[..., low : low + block]
            part = self._doubled(ufunc, part) if self.coin() else self._running(ufunc, part)
            done.append(self._joined(ufunc, done[-1][..., -1:], part) if done else part)
        return np.moveaxis(np.concatenate(done, axis=-1), -1, node.arg["axis"]) if done else x

    def _running(self, ufunc: np.ufunc, x: Array) -> Array:
        """The scan along the last axis, in order."""
        if ufunc is not np.multiply or not self.flush:
            return ufunc.accumulate(x, axis=-1, dtype=x.dtype)
        done = [x[..., :1]]
        for at in range(1, x.shape[-1]):
            done.append(self._joined(ufunc, done[-1], x[..., at : at + 1]))
        return np.concatenate(done, axis=-1)

    def _doubled(self, ufunc: np.ufunc, x: Array) -> Array:
        """The scan of Hillis and Steele (1986): distances 1, 2, 4 … along the last axis."""
        distance = 1
        while distance < x.shape[-1]:
            x = np.concatenate([x[..., :distance], self._joined(ufunc, x[..., :-distance], x[..., distance:])], axis=-1)
            distance *= 2
        return x

    def _joined(self, ufunc: np.ufunc, x: Array, y: Array) -> Array:
        """Parts of a scan together; a product that is a denormal may be 0, whatever it is multiplied by later."""
        result = ufunc(x, y)
        return (
            self.flushed(result, dtype(result.dtype)) if ufunc is np.multiply and result.dtype.kind == "f" else result
        )


def _accumulates(node: Node) -> bool:
    return node.op.kind in (UOpKind.REDUCE, UOpKind.SCAN)


def _wide(x: Array, element: DType) -> Array:
    return np.asarray(x).astype(storage(element, True))


def _immediate(imm: Imm, element: DType) -> Array:
    return convert(np.asarray(imm.value, np.float64 if element.is_float else element.numpy), element, True)


def _narrow(x: Array, element: DType) -> Array:
    """`x` rounded to `element`, as fp64."""
    return convert(np.asarray(x, np.float64), element, False).astype(np.float64)


def _is_exact(x: Array, element: DType) -> Array:
    """Whether `element` holds `x`. What fp64 rounded away cannot be seen: only short numbers count as exact there."""
    if dtype(element) is fp64:
        return np.asarray((np.abs(x) < 2.0**30) & (np.rint(x * 2.0**20) == x * 2.0**20))
    return np.asarray(_narrow(x, element) == x)


def _least(element: DType) -> float:
    """What flushing a denormal loses."""
    return float(ml_dtypes.finfo(element.numpy).smallest_normal) if element.name != "fp16" else 2.0**-24
