"""Times of a region's plans, where some of these cannot be built."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from codegen.backends.cpu import CpuBackend
from codegen.backends.time_plans import times_of
from codegen.compile.library import Library
from codegen.poly.analyse import checked_core
from eqsat.find_target import find_target
from eqsat.runtime.verify import random_inputs
from ir.backend import Lowered, Texts
from ir.diagnostics import Diagnostic, EqsatError, Kind
from ir.dtype import TensorType
from ir.plan.plan import Plan
from ir.poly.core import PolyCore
from ir.region.region import Region
from ir.term.rule import Exactness
from tests.support.programs import regions


def refusal(message: str) -> EqsatError:
    return EqsatError(Diagnostic(kind=Kind.COMPILE_FAILED, stage="test", message=message))


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["lower", "build"])
def test_a_plan_that_does_not_lower_or_compile_has_no_time(stage: str, tmp_path: Path) -> None:
    one = regions.pointwise((64, 48))
    target = find_target("cpu")
    core = checked_core(one)
    plans = [plan for plan, _ in CpuBackend().candidates(one, core, target, Exactness.ROUNDING)]
    broken = msgspec.structs.replace(plans[0], notes=("broken",))

    class Broken(CpuBackend):
        """Refuses plans with that note."""

        def lower(self, region: Region, core: PolyCore, plan: Plan, name: str) -> Lowered:
            if plan == broken and stage == "lower":
                raise refusal("no lowering")
            result = super().lower(region, core, plan, name)
            (refused.add if plan == broken else refused.discard)(name)
            return result

        def build(self, units: Texts, arch: str, cache: Path) -> Library:
            if any(name in text for name in refused for text in units.values()):
                raise refusal("no code")
            return super().build(units, arch, cache)

    def times(*several: Plan) -> list[float | EqsatError]:
        return times_of(one, core, several, arrays, backend=Broken(), target=target, flush=True, cache=tmp_path)

    refused = set[str]()
    arrays = random_inputs(
        {buffer.name: TensorType.of(buffer.memref.dtype, buffer.memref.shape) for buffer in one.inputs}
    )
    first, second, third = times(plans[0], broken, plans[-1])
    assert isinstance(first, float)
    assert isinstance(third, float)
    assert isinstance(second, EqsatError)
    with pytest.raises(EqsatError, match="no lowering" if stage == "lower" else "no code"):
        times(broken, broken)
