"""The cost model as a class: a subclass adds, replaces and leaves out terms.

class Cooler(CostModel):
    without = ("fanout",)

    def launch(self, kernel):
        return 2 * super().launch(kernel)

    def energy(self, kernel):
        return kernel.work.bytes / 1e3

optimize_and_compile(model, cost_model=Cooler())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from eqsat.cost.own_terms import PART_OF, CostTerm, KernelEstimate
from eqsat.cost.roofline import TERM_NAMES
from ir.diagnostics import Kind, fail

STAGE = "options"


class CostModel:
    """The terms of the cost model that are times, in ns, of one plan of one candidate kernel.

    In a subclass a public method is a term: one of a name below replaces that term (`super()` has the time without the
    change), and one of another name is a new term, which adds to the launch. Each takes an
    `eqsat.cost.own_terms.KernelEstimate`, returns ns, 0 or more, and must depend on its argument and on attributes that
    do not change. Methods whose names begin with an underscore are no terms.
    """

    without: ClassVar[Sequence[str]] = ()
    """The names of terms to leave out, those of docs/cost.md and new ones alike."""

    def compute(self, kernel: KernelEstimate) -> float:
        """Arithmetic: one side of the maximum."""
        return kernel.parts.compute

    def memory(self, kernel: KernelEstimate) -> float:
        """Movement of every element of a buffer once: the other side of the maximum."""
        return kernel.parts.memory

    def launch(self, kernel: KernelEstimate) -> float:
        """The call of the kernel."""
        return kernel.parts.launch

    def reuse(self, kernel: KernelEstimate) -> float:
        """Data that is read again from further away."""
        return kernel.parts.reread

    def layout(self, kernel: KernelEstimate) -> float:
        """Distant lanes, partly filled registers, packing."""
        return kernel.parts.layout

    def fanout(self, kernel: KernelEstimate) -> float:
        """Values on chip for several readers."""
        return kernel.parts.fanout


def own_terms_of(wanted: CostModel | type[CostModel]) -> Mapping[str, CostTerm | None]:
    """The terms that a subclass of CostModel replaces and adds, as methods by name, and None for those that it leaves
    out.

    Raises:
        EqsatError: InvalidOption for a class that cannot be called without arguments, and for a term of the cost model
            that is no method.
    """
    model = wanted if isinstance(wanted, CostModel) else _make(wanted)
    classes = type(model).__mro__
    below = classes[: classes.index(CostModel)]
    names = [name for class_ in reversed(below) for name in vars(class_)]
    names += [name for name in vars(model) if name in PART_OF]
    terms: dict[str, CostTerm] = {}
    for name in names:
        if name.startswith("_") or name == "without":
            continue
        term = getattr(model, name)
        if callable(term):
            terms[name] = term
        elif name in PART_OF:
            message = f"cost_model: {type(model).__name__}.{name} is {term!r}, and no method"
            hint = f'without = ("{name}",) leaves the term out; def {name}(self, kernel) returns ns'
            fail(Kind.INVALID_OPTION, STAGE, message, hint=hint)
    without = (model.without,) if isinstance(model.without, str) else tuple(model.without)
    kept: dict[str, CostTerm | None] = {name: term for name, term in terms.items() if name not in without}
    return kept | {name: None for name in without if name in TERM_NAMES or name not in terms}


def _make(class_: type[CostModel]) -> CostModel:
    try:
        return class_()
    except TypeError as error:
        message = f"cost_model: {class_.__name__} cannot be made without arguments: {error}"
        fail(Kind.INVALID_OPTION, STAGE, message, hint=f"cost_model={class_.__name__}(…)")
