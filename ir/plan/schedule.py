"""Schedule Plan (seed 000 §8): the form in which plans are printed, dumped and explained (`plan_to_schedule`)."""

from __future__ import annotations

from typing import Literal

import msgspec


class Cached(msgspec.Struct, frozen=True):
    """A tensor kept in packed panels or a box (CPU) or in shared memory (GPU), refilled at every step of the loop `at`,
    filled once before the loops ("start"), or when the program is built ("build")."""

    tensor: str
    where: Literal["box", "packed", "packed_once", "const_pool", "const_parts", "smem"]
    at: str
    pingpong: bool = False

    def __str__(self) -> str:
        return f"{self.tensor}: {self.where} at {self.at}{' pingpong' * self.pingpong}"


class Vectorize(msgspec.Struct, frozen=True):
    """The axis along which neighbours share a vector register, and how many do."""

    axis: str
    width: int

    def __str__(self) -> str:
        return f"{self.width} of {self.axis}"


class LocalEdge(msgspec.Struct, frozen=True):
    """A value that stays inside the kernel, without memory."""

    src: str = msgspec.field(name="from")
    dst: str = msgspec.field(name="to")
    buffer: Literal["reg", "stack"] = "reg"
    depth: int = 1

    def __str__(self) -> str:
        return f"{self.src} to {self.dst} in {self.buffer}"


class Schedule(msgspec.Struct, frozen=True):
    """One way to run a region, in seed 000 §8's fields.

    tile: block sizes in elements. Of a contraction, and of streams in tiles on a GPU: [BM, BN, BK]. Of streams on a
    CPU: [BM, BR, BC], rows of a task, rows and terms of a tile of scores. Else of the output axes in order.
    stages: depth of the load pipeline. bind: axis piece → machine unit, e.g. {"m.o": "thread"}, {"m.o": "block.y"}.
    warp_tile: the register tile, "14x32", or the tile of a warp, "64x64". predicate_tail: the axes whose last tile is
    cut by a predicate (for m and n of a contraction on a CPU: register tile); the tile divides all other axes.
    epilogue: the ops applied to the accumulator, in order. ordered: every floating-point sum and product takes its
    terms one by one in index order.
    layout_hints: how data lies and moves; a hint is absent where it has its usual value. On a CPU: the operand with the
    columns ("vector"), the loops of a task ("loops"), columns that are prefetched ("prefetch"), sums that the epilogue
    takes from registers ("sums"), tiles of scores that are left out ("unseen"), and for a scatter the axis of lanes and
    the tile of a task while updates are combined. On a GPU: the way of the results to memory ("C_store"), the results
    of a thread without tensor cores ("thread_tile"), the place of queries ("queries"), when fragments are loaded
    ("fragments"), the order of blocks ("raster"), the number of blocks that share a tile of the result or a row
    ("split_k") or the scans of a row ("split_scan"), and whether rows come from several heads ("heads"). notes:
    degradations and choices, for people.
    """

    arch: str
    algo_choice: dict[str, str]
    tile: tuple[int, ...]
    bind: dict[str, str]
    vectorize: Vectorize | None = None
    stages: int = 1
    warp_tile: str = ""
    cache: tuple[Cached, ...] = ()
    predicate_tail: tuple[str, ...] = ()
    epilogue: tuple[str, ...] = ()
    ordered: bool = False
    layout_hints: dict[str, str | bool | int] = {}
    local_edges: tuple[LocalEdge, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line per field that says something: tables as `key value`, tuples side by side."""
        defaults = dict(zip(reversed(self.__struct_fields__), reversed(self.__struct_defaults__), strict=False))
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        lines = [f"  {name}: {_field(value)}" for name, value in fields if value and value != defaults.get(name)]
        return "\n".join(["plan", *lines])


def _field(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {choice}" for key, choice in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
