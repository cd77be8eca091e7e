"""Checks that threads see the tiles they read, by running the kernel's accesses to shared memory turn by turn.

All threads of a block execute the same statements. One run over the values that they agree on (loops, stages, the
block) therefore shows the order in which a tile (one stage of one buffer) is filled, waited for, read and refilled:

    filled by copies → WaitGroup: this thread's copies have arrived → Barrier: all threads' have → may be read
    filled by stores → Barrier → may be read
    read → Barrier: all threads have read it → may be filled again

The products of warpgroups read tiles, and write accumulators, while threads go on:

    filled, and for copies waited for → ProxyFence → Barrier → products may read it
    products read → WgmmaCommit, WgmmaWait: this warpgroup's have read it → Barrier → may be filled again
    accumulators are touched → WgmmaFence → products add to them → WgmmaCommit, WgmmaWait → may be touched

A tile is checked as a whole: accesses of different threads to different parts of it still need a barrier between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ir.index.expr import AxisExpr
from ir.kernel.gpu.effects import (
    Accumulate,
    Branch,
    Commit,
    Effect,
    EffectLoop,
    OrderTouches,
    Set,
    SharedAccess,
    ShowWrites,
    Sync,
    Touch,
    Wait,
    axes_of,
    effects,
)
from ir.kernel.gpu.kernel import BLOCK_X, BLOCK_Y, BLOCK_Z, GpuKernel, Shared
from ir.kernel.gpu.repeat import is_steady, period
from ir.kernel.nodes import Within

_BLOCKS = (BLOCK_X, BLOCK_Y, BLOCK_Z)
Values = list[int | None]
"""The value of every variable; None if it differs between threads or is unknown."""


def hazards(kernel: GpuKernel) -> list[str]:
    """Reads and writes that come too early, one message per buffer and reason."""
    tree = effects(kernel)
    used = axes_of(tree)
    ends = [sorted({kernel.variables[axis].low, kernel.variables[axis].high}) for axis in _BLOCKS if axis in used]
    messages: dict[str, None] = {}
    for block in itertools.product(*ends):
        values: Values = [None] * len(kernel.variables)
        for axis, value in zip((axis for axis in _BLOCKS if axis in used), block, strict=True):
            values[axis] = value
        messages |= dict.fromkeys(_AsyncRun(kernel, values).run(tree))
    return list(messages)


@dataclass
class _StagedTile:
    """The state of one stage of one buffer."""

    shared: Shared
    stage: int
    over: list[_StagedTile] = field(default_factory=list)
    """Tiles of other buffers in the same bytes."""
    groups: set[int] = field(default_factory=set)
    """Groups of copies to the tile that nothing has waited for."""
    arrived: bool = False
    """This thread's copies are complete; other threads may not know."""
    stored: bool = False
    """Threads have stored to the tile since the last barrier."""
    held: bool = False
    """The tile may be read."""
    reading: bool = False
    """Other threads may still read the tile."""
    unread: bool = False
    """No thread has read the tile since it was filled."""
    products: set[int] = field(default_factory=set)
    """Groups of products that read the tile and that nothing has waited for."""
    fenced: bool = False
    """This thread's writes to the tile are fenced for products; those of other threads may not be."""
    shown: bool = False
    """Products may read the tile."""

    @property
    def name(self) -> str:
        return f"stage {self.stage} of {self.shared.name}" if self.shared.stages > 1 else self.shared.name

    @property
    def first(self) -> int:
        return self.shared.start + self.stage * self.shared.stage_bytes


@dataclass
class _Accumulators:
    """The state of one array of accumulators of products."""

    ordered: bool = False
    """A fence has followed the last access of threads."""
    products: set[int] = field(default_factory=set)
    """Groups of products that add to it and that nothing has waited for."""


class _AsyncRun:
    def __init__(self, kernel: GpuKernel, values: Values) -> None:
        self.kernel, self.values = kernel, values
        self.group = 0
        """The number of the group that the next commit ends."""
        self.started = False
        """Whether that group has copies."""
        self.product_group = 0
        """The number of the group of products that the next commit ends."""
        self.accumulators: dict[str, _Accumulators] = {}
        tiles = [_StagedTile(shared, stage) for shared in kernel.shared for stage in range(shared.stages)]
        self.tiles = {(tile.shared.name, tile.stage): tile for tile in tiles}
        for a, b in itertools.permutations(tiles, 2):
            apart = a.first + a.shared.stage_bytes <= b.first or b.first + b.shared.stage_bytes <= a.first
            if a.shared.name != b.shared.name and not apart:
                a.over.append(b)

    def run(self, tree: Sequence[Effect]) -> Iterator[str]:
        yield from self._effects(tree)
        if self.started:
            yield "copies are never committed"
        for tile in self.tiles.values():
            if tile.groups and not self.started:
                yield f"copies to {tile.name} are still under way at the end"
        for name, acc in self.accumulators.items():
            if acc.products:
                yield f"products are still added to {name} at the end"

    def _effects(self, tree: Sequence[Effect]) -> Iterator[str]:
        for effect in tree:
            match effect:
                case SharedAccess():
                    yield from self._access(effect)
                case Commit(products=True):
                    self.product_group += 1
                case Commit():
                    self.group, self.started = self.group + 1, False
                case Wait(products=True):
                    yield from self._wait_for_products(effect.pending)
                case Wait():
                    yield from self._wait(effect.pending)
                case ShowWrites():
                    for tile in self.tiles.values():
                        tile.fenced |= tile.arrived or tile.stored
                case Accumulate() | Touch() | OrderTouches():
                    yield from self._use_accumulators(effect)
                case Sync():
                    self._synchronize(effect.block)
                case Set():
                    self._set(effect)
                case EffectLoop():
                    yield from self._loop(effect)
                case Branch():
                    taken = self._holds(effect.conditions)
                    if taken is not False:
                        yield from self._effects(effect.then)
                    if taken is not True:
                        yield from self._effects(effect.orelse)

    def _loop(self, loop: EffectLoop) -> Iterator[str]:
        start, stop = self._value(loop.start), self._value(loop.stop)
        if start is None or stop is None:  # threads disagree on the turns: nothing inside synchronises
            yield from self._turn(loop, None)
            return
        turns = range(start, stop, loop.step)
        every = None if loop.alike else period(loop)
        position, before = 0, None
        while position < (min(1, len(turns)) if loop.alike else len(turns)):
            yield from self._turn(loop, turns[position])
            position += 1
            if every is not None and position % every == 0:
                state = self._state()
                if state == before:
                    position, every = self._skip_turns(loop, turns, position, every), None
                before = state

    def _turn(self, loop: EffectLoop, value: int | None) -> Iterator[str]:
        self.values[loop.variable] = value
        yield from self._effects(loop.body)
        self.values[loop.variable] = None

    def _skip_turns(self, loop: EffectLoop, turns: range, position: int, every: int) -> int:
        """The last turn that starts in the same state as turn `position`, with the same conditions since that state
        was first seen."""
        ranges = zip(self.values, self.kernel.box, strict=True)
        box = tuple(around if value is None else (value, value) for value, around in ranges)
        rest = every
        while position + rest < len(turns):
            later = position + (len(turns) - position - rest) // every * every
            if is_steady(loop, turns[position - every], turns[later - 1], box):
                return later
            rest *= 2
        return position

    def _state(self) -> tuple[object, ...]:
        """Everything that later turns depend on. Groups are counted from the current one."""
        tiles = [
            (
                max(tile.groups, default=0) - self.group if tile.groups else None,
                (bool(tile.groups - {self.group}), tile.arrived, tile.stored, tile.held, tile.reading, tile.unread),
                (frozenset(group - self.product_group for group in tile.products), tile.fenced, tile.shown),
            )
            for tile in self.tiles.values()
        ]
        sums = [
            (name, acc.ordered, frozenset(group - self.product_group for group in acc.products))
            for name, acc in self.accumulators.items()
        ]
        return (*tiles, *sums, self.started, self.group > 0, self.product_group > 0)

    def _set(self, effect: Set) -> None:
        exprs = [self._value(expr) for expr in (effect.expr, *effect.most, *effect.least)]
        value: int | None = None
        if effect.known and None not in exprs:
            known = [value for value in exprs if value is not None]
            most = 1 + len(effect.most)
            value = max([min(known[:most]), *known[most:]])
        self.values[effect.variable] = value

    # --- the state of tiles ---

    def _access(self, access: SharedAccess) -> Iterator[str]:
        stage = self._value(access.stage)
        tile = self.tiles.get((access.shared, stage if stage is not None else -1))
        if tile is None:
            yield f"the stage of {access.shared} is unknown at an access"
        elif access.kind == "product":
            yield from self._multiply(tile)
        elif access.kind == "read":
            yield from self._read(tile)
        else:
            yield from self._write(tile, copied=access.kind == "copy")

    def _read(self, tile: _StagedTile) -> Iterator[str]:
        if tile.groups:
            yield f"{tile.name} is read, and nothing has waited for the copies to it"
        elif tile.arrived:
            yield f"{tile.name} is read with no barrier since the copies of other threads to it"
        elif tile.stored:
            yield f"{tile.name} is read with no barrier since other threads stored to it"
        elif not tile.held:
            yield f"{tile.name} is read, but nothing was stored to it"
        tile.reading, tile.unread = True, False

    def _multiply(self, tile: _StagedTile) -> Iterator[str]:
        reading = tile.reading
        yield from self._read(tile)
        if tile.held and not tile.shown:
            yield f"products read {tile.name} with no ProxyFence between the writes to it and the barrier"
        tile.reading = reading
        tile.products.add(self.product_group)

    def _use_accumulators(self, effect: Accumulate | Touch | OrderTouches) -> Iterator[str]:
        acc = self.accumulators.setdefault(effect.acc, _Accumulators())
        match effect:
            case OrderTouches():
                acc.ordered = True
            case Accumulate():
                if not acc.ordered:
                    yield f"products are added to {effect.acc} with no WgmmaFence since threads touched it"
                acc.products.add(self.product_group)
            case Touch():
                if acc.products:
                    yield f"{effect.acc} is touched, and nothing has waited for the products that are added to it"
                acc.ordered = False

    def _wait_for_products(self, pending: int) -> Iterator[str]:
        if not self.product_group:
            yield "a WgmmaWait before any group was committed"
        waited = self.product_group - pending
        for tile in self.tiles.values():
            if tile.products and max(tile.products) < waited:
                tile.reading = True
            tile.products = {group for group in tile.products if group >= waited}
        for acc in self.accumulators.values():
            acc.products = {group for group in acc.products if group >= waited}

    def _write(self, tile: _StagedTile, *, copied: bool) -> Iterator[str]:
        for other in (tile, *tile.over):
            if other.reading:
                yield f"{tile.name} is filled, and others may still read {other.name}: no barrier since"
            if other.products:
                yield f"{tile.name} is filled, and nothing has waited for the products that read {other.name}"
            if other.groups - {self.group} or (other.groups and (other is not tile or not copied)):
                yield f"{tile.name} is filled while copies to {other.name} are under way"
            if other.stored and (other is not tile or copied):
                yield f"{tile.name} is filled, and others may still store to {other.name}: no barrier since"
        if tile.unread and (tile.held or tile.arrived):
            yield f"{tile.name} is filled again before anything has read it"
        for other in tile.over:
            other.held = other.arrived = other.unread = other.shown = False
        tile.unread, tile.arrived, tile.fenced, tile.shown = True, False, False, False
        if copied:
            tile.groups.add(self.group)
            tile.held, self.started = False, True
        else:
            tile.stored, tile.held = True, False

    def _wait(self, pending: int) -> Iterator[str]:
        if not self.group:
            yield "a WaitGroup before any group was committed"
        for tile in self.tiles.values():
            if tile.groups and max(tile.groups) < self.group - pending:
                tile.groups.clear()
                tile.arrived = True

    def _synchronize(self, block: bool) -> None:
        for tile in self.tiles.values():
            if block or tile.shared.scope == "warp":
                tile.held |= tile.arrived or tile.stored
                tile.shown |= tile.fenced
                tile.arrived = tile.stored = tile.reading = tile.fenced = False

    # --- the values that threads agree on ---

    def _value(self, expr: AxisExpr) -> int | None:
        if any(self.values[axis] is None for axis in expr.axes):
            return None
        value: int = expr.eval(self.values)
        return value

    def _holds(self, conditions: Sequence[Within]) -> bool | None:
        """Whether all conditions hold; None if that is unknown or differs between threads."""
        values = [self._value(condition.expr) for condition in conditions]
        truths = [None if v is None else c.low <= v < c.high for c, v in zip(conditions, values, strict=True)]
        if False in truths:
            return False
        return None if None in truths else True
