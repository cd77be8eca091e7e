"""Split-K: where products or streams have too few tiles for the chip, several blocks share each, and the last of them
joins what all have (`codegen.lower.gpu.split_sum`, `split_stream`).

tile 128×128 of 256×256, K = 8192       4 blocks, of 108 multiprocessors
split_k 25                            100 blocks, each with 11 turns of 32 terms or 10
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tiling import tiles_of, turns_of, turns_of_block
from ir.dtype import DTYPES
from ir.plan.gpu import ContractionTile
from ir.target import Target

_WAVES = 2
"""Blocks of a multiprocessor from which on the chip counts as full."""
_TURNS = 4
"""Of a block at least: what fills its ring, and as many again."""
_FEW = (4, 8)
"""Numbers of parts that are cheap to add up, whatever the chip has."""
_ARRIVAL_CYCLES = 1500.0
"""From the last store of a block's part until it is seen: a barrier, two fences and an atomic in the second-level
cache."""
_PART_CYCLES = 250.0
"""To begin to read one more part, from that cache."""
_MOVED_BYTES = 64
"""Per cycle of an SM, to and from that cache."""


def splits_of(view: Contraction, tile: ContractionTile, target: Target) -> Iterator[ContractionTile]:
    """The tile shared by several blocks, where whole tiles leave multiprocessors idle and sums may take any order."""
    if view.ordered:
        return
    for split in part_counts(math.prod(tiles_of(view, tile)), turns_of(view, tile), target):
        shared = msgspec.structs.replace(tile, split=split)
        yield msgspec.structs.replace(shared, stages=min(tile.stages, turns_of_block(view, shared)))


def part_counts(blocks: int, turns: int, target: Target, waves: int = _WAVES) -> list[int]:
    """By how many blocks each of `blocks` tiles of so many turns may be shared: as many as give each multiprocessor
    one, or `waves` of them, or a few; none where the tiles themselves are enough."""
    most = min(waves * target.units // max(blocks, 1), turns // _TURNS)
    if most < 2 or not blocks:
        return []
    wanted = (*(count * target.units // blocks for count in (1, _WAVES, waves)), *_FEW)
    return sorted({-(-turns // -(-turns // min(each, most))) for each in wanted if each > 1} - {1})


def part_bytes(view: Contraction, tile: ContractionTile) -> int:
    """What all blocks of a launch leave for those that come last."""
    if tile.split == 1:
        return 0
    return math.prod(tiles_of(view, tile)) * tile.split * tile.bm * tile.bn * DTYPES[view.accumulator].bytes


def meeting_cycles(view: Contraction, tile: ContractionTile) -> float:
    """From the last products of a tile to its sums: a part stored, and all of them read."""
    if tile.split == 1:
        return 0.0
    own = tile.bm * tile.bn * DTYPES[view.accumulator].bytes
    return arrival_cycles(tile.split, own) + tile.split * _PART_CYCLES


def arrival_cycles(split: int, own: float) -> float:
    """From the last of a block's work until all parts have been seen, of which each is `own` bytes."""
    return _ARRIVAL_CYCLES + (split + 1) * own / _MOVED_BYTES
