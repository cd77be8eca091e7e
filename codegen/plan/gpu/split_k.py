"""Split-K: where there are too few tiles for the chip, several blocks share a tile, each with a part of the terms. The
last block joins the parts (`codegen.lower.gpu.split_sum`, `split_stream`).

tile 128×128 of 256×256, K = 8192       4 blocks, for 108 multiprocessors
split_k 25                            100 blocks, with 11 or 10 turns of 32 terms
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tiling import tiles_of, turns_of, turns_of_block
from codegen.plan.gpu.latencies import ARRIVAL
from ir.dtype import DTYPES
from ir.plan.gpu import ContractionTile
from ir.target import Target

_WAVES = 2
"""Blocks per multiprocessor from which the chip is full."""
_TURNS = 4
"""Turns of a block, at least: twice what fills its ring."""
_FEW = (4, 8)
"""Numbers of parts that are tried on every chip, since few parts are cheap to add up."""
_PART_CYCLES = 250.0
"""Cycles until the first bytes of one more part arrive from that cache."""
_MOVED_BYTES = 64
"""Bytes per cycle of an SM to and from that cache."""


def splits_of(view: Contraction, tile: ContractionTile, target: Target) -> Iterator[ContractionTile]:
    """The tile shared by several blocks, where whole tiles leave multiprocessors idle; none if terms are ordered."""
    if view.ordered:
        return
    for split in part_counts(math.prod(tiles_of(view, tile)), turns_of(view, tile), target):
        shared = msgspec.structs.replace(tile, split=split)
        yield msgspec.structs.replace(shared, stages=min(tile.stages, turns_of_block(view, shared)))


def part_counts(blocks: int, turns: int, target: Target, waves: int = _WAVES) -> list[int]:
    """Numbers of blocks that may share a tile, for `blocks` tiles of so many turns: enough to give every multiprocessor
    one block, or `waves` blocks, or a few; [] where there are tiles enough."""
    most = min(waves * target.units // max(blocks, 1), turns // _TURNS)
    if most < 2 or not blocks:
        return []
    wanted = (*(count * target.units // blocks for count in (1, _WAVES, waves)), *_FEW)
    return sorted({-(-turns // -(-turns // min(parts, most))) for parts in wanted if parts > 1} - {1})


def part_bytes(view: Contraction, tile: ContractionTile) -> int:
    """Bytes of the parts of all blocks of a launch."""
    if tile.split == 1:
        return 0
    return math.prod(tiles_of(view, tile)) * tile.split * tile.bm * tile.bn * DTYPES[view.accumulator].bytes


def meeting_cycles(view: Contraction, tile: ContractionTile) -> float:
    """Cycles from the last products of a tile to its sums: a part is stored, then all parts are read."""
    if tile.split == 1:
        return 0.0
    own = tile.bm * tile.bn * DTYPES[view.accumulator].bytes
    return arrival_cycles(tile.split, own) + tile.split * _PART_CYCLES


def arrival_cycles(split: int, own: float) -> float:
    """Cycles from the end of a block's work until all parts, of `own` bytes each, have been read."""
    return ARRIVAL + (split + 1) * own / _MOVED_BYTES
