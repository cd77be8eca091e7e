"""The chain of rewrites from the uops of a kernel to the kernel, as data and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from eqsat.explanation.history import Derivation, History
from eqsat.explanation.notation import Notation
from eqsat.explanation.proof import Rewrite
from eqsat.runtime.kernel_term import KernelTerm
from ir.diagnostics import Kind, fail
from ir.module.module import KernelCall
from ir.term.language import GIVEN
from rules.certificates import certificate

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rewrite, of `before` into `after`, somewhere in the term. backwards: the equation was used right to left.
    beside: terms that the rule's conditions require. times: how often in a row, on equal terms."""

    rule: str
    family: str
    equation: str
    exactness: str
    certificate: str
    before: str
    after: str
    backwards: bool = False
    beside: tuple[str, ...] = ()
    times: int = 1


class Chain(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rewrites, in order, from the term of the last uop to the term of the kernel that writes `output`.

    birth: for a buffer that no uop writes, the rewrite whose result first read the buffer.
    """

    output: str
    start: str
    steps: tuple[Step, ...]
    end: str
    birth: Step | None = None

    def __str__(self) -> str:
        lines = [] if self.birth is None else [f"     {self.birth.rule}: {self.birth.equation}"]
        lines += [f"{self.output} = {self.start}"]
        for place, step in enumerate(self.steps, 1):
            times = f" ×{step.times}" if step.times > 1 else ""
            lines += [f"{place:>3}. {step.rule}{times}: {step.equation}", f"     {step.before}"]
            lines += [f"   {_arrow(step)} {step.after}", *(f"     as there is {term}" for term in step.beside)]
        return "\n".join([*lines, f"{self.output} = {self.end}"])


class Chosen(Protocol):
    """Chosen kernels: their calls, their terms, and the history of the saturation."""

    @property
    def calls(self) -> tuple[KernelCall, ...]: ...
    @property
    def terms(self) -> tuple[KernelTerm, ...]: ...
    @property
    def history(self) -> History: ...


def chain_at(chosen: Chosen, place: int, output: int = 0) -> Chain:
    """The chain of one output of the kernel at a place.

    Raises:
        EqsatError: UnsupportedOp for a kernel that copies a buffer to another order of axes; as `History.derivation`.
    """
    if chosen.terms[place].is_copy:
        (source,) = chosen.calls[place].reads
        message = f"no rewrite led to this kernel, which copies `{source}` to another order of axes"
        fail(Kind.UNSUPPORTED_OP, "explain", message, at=chosen.calls[place].name, hint="name another kernel")
    return chain_of(chosen.history, chosen.calls[place], chosen.terms[place], output)


def chains_at(chosen: Chosen, place: int) -> tuple[Chain, ...]:
    """The chain of every output of the kernel at a place; none of a kernel that copies a buffer to another order.
    Raises EqsatError as `History.derivation`."""
    if chosen.terms[place].is_copy:
        return ()
    return tuple(chain_at(chosen, place, output) for output in range(len(chosen.calls[place].writes)))


def chain_of(history: History, call: KernelCall, term: KernelTerm, output: int = 0) -> Chain:
    """The chain of one output of a kernel. Raises EqsatError as `History.derivation`."""
    derivation = history.derivation(call, term, output)
    return chain_in(derivation, notation_of(history, derivation), call.writes[output])


def chain_in(derivation: Derivation, notation: Notation, output: str) -> Chain:
    """The chain of a derivation, which leads to the kernel that writes `output`."""
    steps: list[Step] = []
    for rewrite in derivation.rewrites:
        step = _step(rewrite, notation)
        if steps and msgspec.structs.replace(steps[-1], times=1) == step:
            steps[-1] = msgspec.structs.replace(step, times=steps[-1].times + 1)
        else:
            steps.append(step)
    start, end = notation.definition(derivation.start), notation.definition(derivation.end)
    birth = None if derivation.birth is None else _step(derivation.birth, notation)
    return Chain(output, start, tuple(steps), end, birth)


def _step(rewrite: Rewrite, notation: Notation) -> Step:
    """A rewrite in the notation; with marks if nothing else changes."""
    before, after = notation(rewrite.before), notation(rewrite.after)
    if before == after:
        before, after = map(notation.with_marks(), (rewrite.before, rewrite.after))
    rule = rewrite.rule
    return Step(
        rule=rule.name,
        family=rule.family,
        equation=rule.equation,
        exactness=str(rule.exactness),
        certificate=str(certificate(rule)),
        before=before,
        after=after,
        backwards=rewrite.backwards,
        beside=tuple(map(notation.definition, rewrite.others)),
    )


def notation_of(history: History, derivation: Derivation) -> Notation:
    """Writes the terms of a derivation."""
    nodes, classes = derivation.replay.nodes, history.classes

    def shape(term: int) -> tuple[int, ...] | None:
        node = nodes[term]
        is_given = node.ctor == GIVEN.name
        return (history.view.type_of(classes[node.name]) if is_given else node.type).shape

    return Notation(nodes.__getitem__, derivation.names.get, shape)


def chain_table(chain: Chain) -> Table:
    """The chain as a rich table: the number and rule of each step, its equation, and the term before and after."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right", style="dim")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    if chain.birth is not None:
        table.add_row("", *_row(chain.birth))
    table.add_row(
        "", Text("the uops" if chain.birth is None else "the buffer"), Text(f"{chain.output} = {chain.start}")
    )
    for place, step in enumerate(chain.steps, 1):
        table.add_row(str(place), *_row(step))
    table.add_row("", Text("the kernel"), Text(f"{chain.output} = {chain.end}"))
    return table


def _row(step: Step) -> tuple[Text, Text]:
    from rich.text import Text

    times = f" ×{step.times}" if step.times > 1 else ""
    cell = Text.assemble((step.equation, "italic"), "\n", step.before, "\n", (f"{_arrow(step)} ", "bold"), step.after)
    cell.append("".join(f"\nas there is {term}" for term in step.beside), "dim")
    return Text(step.rule + times, style="cyan"), cell


def _arrow(step: Step) -> str:
    return "←" if step.backwards else "→"
