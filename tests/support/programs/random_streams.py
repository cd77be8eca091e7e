"""Random regions with streams: axes in any order, several per role, computed or read scores, any kind of value."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import TypeVar

from ir.region.region import Buffer, Definition, Number, Operand, Region, Yield
from tests.support.programs.regions import Sizes, buffer, contraction, ewise, read, reduction, same
from tests.support.programs.stream_regions import stream

T = TypeVar("T")
Axes = list[str]
"""Names of axes by role: b batch, r rows, c columns, t terms, d depth; then a number."""

_MOST_POINTS = 300_000


def random_streams(seed: int) -> Region:
    """A region whose streams all have one score, small enough for playback."""
    rng = random.Random(seed)
    while True:
        maker = _Maker(rng, _sizes(rng))
        if math.prod(maker.sizes.values()) <= _MOST_POINTS:
            return maker.region(f"streams_{seed}")


def _sizes(rng: random.Random) -> dict[str, int]:
    """One to four roles' axes; a role with one axis may be long."""
    results: dict[str, int] = {}
    for role, counts in (
        ("b", (0, 1, 1, 2)),
        ("r", (0, 1, 1, 2)),
        ("c", (0, 1, 1, 2)),
        ("t", (1, 1, 2)),
        ("d", (0, 1, 2)),
    ):
        count = rng.choice(counts)
        long = (16, 17, 33, 150) if count == 1 and role != "b" else ()
        results.update({f"{role}{number}": rng.choice((1, 2, 3, 5, 7, 8, *long)) for number in range(count)})
    return results


@dataclass
class _Maker:
    """A region under construction: `scores` are the axes of the value `score`."""

    rng: random.Random
    sizes: dict[str, int]
    inputs: list[Buffer] = field(default_factory=list)
    body: list[Definition] = field(default_factory=list)
    score: str = ""
    scores: Axes = field(default_factory=list)

    def region(self, name: str) -> Region:
        self.dtype = self.rng.choice(("fp32", "fp32", "fp16", "bf16"))
        self.kind = self.rng.choice(("fp32", self.dtype))
        outer = self._shuffled([*self._role("b"), *self._role("r"), *self._role("c")], 0.5)
        if self.rng.random() < 0.7:
            self._product()
        else:
            self.scores = self._input("X", [*self._role("b"), *self._role("r"), *self._role("t")], self.kind)
            self.score = "X"
        self._masks()
        value = self._combined(outer, self._streams(outer))
        order = self._shuffled(outer, 0.4)
        end = Yield(value, "Y", self._read(value, outer, order).map)
        return Region(name, tuple(self.inputs), (buffer("Y", self._shape(order), self.kind),), tuple(self.body), (end,))

    # --- parts ---

    def _product(self) -> None:
        """Scores that are a contraction of queries and keys, either side first, with or without a prologue."""
        rows, terms, depth = self._role("r"), self._role("t"), self._role("d")
        self.scores = self._shuffled([*self._role("b"), *rows, *terms], 0.3)
        over = [*self.scores, *depth]
        shared = [axis for axis in self._role("b") if self.rng.random() < 0.8]
        sides = []
        for name, own, fn in (
            ("Q", [*self._role("b"), *rows, *depth], "relu"),
            ("K", [*shared, *terms, *depth], "abs"),
        ):
            axes = self._input(name, own, self.dtype)
            if self.rng.random() < 0.3:
                self._let(ewise(f"{name}1", fn, self._shape(axes), same(name, self._shape(axes)), dtype=self.dtype))
                name = f"{name}1"
            sides.append(self._read(name, axes, over))
        lhs, rhs = self._shuffled(sides, 0.3)
        self.score = self._let(contraction("S", self._shape(over), len(depth), lhs, rhs, self.kind))

    def _masks(self) -> None:
        """What is done to scores one by one."""
        if self.rng.random() < 0.6:
            self._scored("scaled", "mul", same(self.score, self._shape(self.scores)), Number(0.3, self.kind))
        if self.rng.random() < 0.4:
            axes = self._input("bias", self._some(self.scores), self.kind)
            bias = self._read("bias", axes, self.scores)
            self._scored("biased", "add", same(self.score, self._shape(self.scores)), bias)
        if self.rng.random() < 0.4:
            axes = self._input("mask", self._some(self.scores), "bool")
            mask, score = self._read("mask", axes, self.scores), same(self.score, self._shape(self.scores))
            self._scored("masked", "where", mask, score, Number("-inf", self.kind))

    def _streams(self, outer: Axes) -> list[tuple[str, Axes]]:
        """Products with matrices, sums of rows, maxima: (value, its axes)."""
        fn = self.rng.choice(("exp", "exp2"))
        terms, rows = self._role("t"), [axis for axis in outer if axis[0] != "c"]
        results = []
        for number in range(self.rng.choice((1, 1, 2))):
            own, matrix = self._shuffled(outer, 0.3), [*self._some(self._role("b")), *terms, *self._role("c")]
            axes = self._input(f"V{number}", matrix, self.dtype)
            value = self._read(f"V{number}", axes, [*own, *terms])
            results.append((self._stream(f"A{number}", own, value, fn), own))
        if self.rng.random() < 0.8:
            results.append((self._stream("L", rows, None, fn), rows))
        if self.rng.random() < 0.3:
            axes = self._input("U", self._some([*rows, *terms]), self.dtype)
            results.append((self._stream("W", rows, self._read("U", axes, [*rows, *terms]), fn), rows))
        if self.rng.random() < 0.4:
            over = [*rows, *terms]
            score = self._read(self.score, self.scores, over)
            results.append((self._let(reduction("M", "max", self._shape(over), len(terms), score, self.kind)), rows))
        return results

    def _stream(self, name: str, own: Axes, value: Operand | None, fn: str) -> str:
        over = [*own, *self._role("t")]
        score = self._read(self.score, self.scores, over)
        return self._let(stream(name, self._shape(over), len(over) - len(own), score, value, fn, self.kind))

    def _combined(self, outer: Axes, parts: list[tuple[str, Axes]]) -> str:
        """One value of all of them."""
        (first, own), *rest = parts
        shape = self._shape(outer)
        last = self._let(
            ewise("Y0", "mul", shape, self._read(first, own, outer), Number(1.5, self.kind), dtype=self.kind)
        )
        for name, axes in rest:
            fn = "fdiv" if name == "L" else self.rng.choice(("add", "max"))
            operand = self._read(name, axes, outer)
            last = self._let(ewise(f"{name}_Y", fn, shape, same(last, shape), operand, dtype=self.kind))
        return last

    # --- small change ---

    def _role(self, role: str) -> Axes:
        return [axis for axis in self.sizes if axis[0] == role]

    def _shape(self, axes: Axes) -> Sizes:
        return tuple(self.sizes[axis] for axis in axes)

    def _some(self, axes: Axes) -> Axes:
        return [axis for axis in axes if self.rng.random() < 0.7]

    def _shuffled(self, items: list[T], often: float) -> list[T]:
        return self.rng.sample(items, len(items)) if self.rng.random() < often else items

    def _input(self, name: str, axes: Axes, dtype: str) -> Axes:
        """A buffer over these axes in any order, which is returned."""
        axes = self._shuffled(axes, 1.0)
        self.inputs.append(buffer(name, self._shape(axes), dtype))
        return axes

    def _let(self, let: Definition) -> str:
        self.body.append(let)
        return let.name

    def _scored(self, name: str, fn: str, *operands: Operand | Number) -> None:
        self.score = self._let(ewise(name, fn, self._shape(self.scores), *operands, dtype=self.kind))

    def _read(self, value: str, own: Axes, over: Axes) -> Operand:
        """A value of these axes, over others that hold them."""
        coords = [f"i{over.index(axis)}" if self.sizes[axis] > 1 else "0" for axis in own]
        return read(value, self._shape(over), *coords)
