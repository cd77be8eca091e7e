"""The loops over the updates of a scatter that a plan says, and the check that a plan fits the region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.plan.cpu.nest_tiling import check_nest_plan
from codegen.plan.plan_check import STAGE, check_cpu, fail_malformed, fail_misaligned
from codegen.plan.region_loops import Group
from codegen.plan.scatter_view import ScatterView
from ir.diagnostics import Kind, fail
from ir.plan.cpu import CpuScatterPlan
from ir.target import LANES


@dataclass(frozen=True)
class UpdateLoop:
    """One loop over axes of the result; the blocks of a loop with several are tasks."""

    group: Group
    tile: int
    vector: bool = False

    @property
    def extent(self) -> int:
        return self.group.extent

    @property
    def blocks(self) -> int:
        return -(-self.extent // self.tile)


@dataclass(frozen=True)
class UpdateLoops:
    """The loops of a plan, in the order in which they run: `outer` ones around the updates of one column or row;
    `indexed` ones inside, on which the index depends; `inner` ones, over elements with one index. `axis` is the loop
    over positions, which has no steps of its own."""

    axis: UpdateLoop
    outer: tuple[UpdateLoop, ...]
    indexed: tuple[UpdateLoop, ...]
    inner: tuple[UpdateLoop, ...]

    @property
    def all(self) -> tuple[UpdateLoop, ...]:
        return (*self.outer, self.axis, *self.indexed, *self.inner)

    @property
    def divided(self) -> UpdateLoop | None:
        """The loop whose blocks are tasks."""
        return next((loop for loop in self.all if loop.blocks > 1), None)


def update_loops(view: ScatterView, plan: CpuScatterPlan) -> UpdateLoops:
    """The loops of a plan that fits."""
    loops: list[UpdateLoop] = []
    for position, loop in enumerate(plan.loops):
        group = Group.whole(loop.axes, [view.shape[axis] for axis in loop.axes], "i")
        loops.append(UpdateLoop(group, loop.tile, position == plan.lanes))
    place = next(position for position, loop in enumerate(plan.loops) if view.axis in loop.axes)
    after = loops[place + 1 :]
    indexed = [loop for loop in after if has_own_index(view, loop.group.axes)]
    inner = tuple(loop for loop in after if loop not in indexed)
    return UpdateLoops(loops[place], tuple(loops[:place]), tuple(indexed), inner)


def has_own_index(view: ScatterView, axes: Sequence[int]) -> bool:
    """Whether the index differs between points along these axes of the result."""
    return not view.index_axes.isdisjoint(axes)


def check_scatter_plan(view: ScatterView, plan: CpuScatterPlan) -> None:
    """Raises EqsatError where a plan does not fit: UnknownTarget for another machine's plan; AlignmentMismatch where
    lanes do not fill the blocks; MalformedGraph where the plan contradicts the region; UnsupportedOp where the template
    does not have the choice."""
    check_cpu(plan.arch)
    if any(nest.arch != plan.arch for nest in (plan.source, plan.finish) if nest is not None):
        fail_malformed(view, f"a nest runs by a plan for another machine than {plan.arch}")
    if (view.finish is None) != (plan.finish is None):
        fail_malformed(view, "the plan and the region do not both apply functions to the scatter")
    if view.is_in_place != (plan.source is None):
        fail_malformed(view, "the plan and the region do not both write the source")
    if plan.source is not None:
        check_nest_plan(view.source, plan.source)
    if view.finish is not None and plan.finish is not None:
        check_nest_plan(view.finish, plan.finish)
    axes = [axis for loop in plan.loops for axis in loop.axes]
    if axes != list(range(len(view.shape))) or (view.axis,) not in [loop.axes for loop in plan.loops]:
        fail_malformed(view, f"the loops {[loop.name for loop in plan.loops]} are not those of the scatter")
    for loop in plan.loops:
        if not 1 <= loop.tile <= max(1, view.extent(loop.axes)):
            fail_malformed(view, f"a tile of {loop.tile} along {loop.name}")
    if plan.threads is not None and not 0 <= plan.threads < len(plan.loops):
        fail_malformed(view, f"tasks along loop {plan.threads} of {len(plan.loops)}")
    cut = [position for position, loop in enumerate(plan.loops) if loop.tile < view.extent(loop.axes)]
    if cut not in ([], [plan.threads]):
        fail(Kind.UNSUPPORTED_OP, STAGE, "tasks of a scatter divide one loop", at=view.region.name, loops=plan.loops)
    if plan.lanes is None:
        return
    if not 0 <= plan.lanes < len(plan.loops):
        fail_malformed(view, f"lanes along loop {plan.lanes} of {len(plan.loops)}")
    loop = plan.loops[plan.lanes]
    if loop.axes[0] <= view.axis or has_own_index(view, loop.axes):
        message = f"the elements along {loop.name} have no common index, which lanes need"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name)
    if loop.tile < view.extent(loop.axes) and loop.tile % LANES[plan.arch]:
        fail_misaligned(view, f"a tile of {loop.tile} along {loop.name} is no whole number of registers")
