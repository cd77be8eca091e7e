"""Registers of which only the first lane counts, as numbers in C: indices of rows that a kernel reads.

    at = pick(where(cmplt(d[i : splat], 0), add(d[i : splat], 2000), d[i : splat]))

All lanes hold the same index, and an address takes one number. Integers of the core find that number in a few cycles;
vectors need about thirty, of which most pass until the number has left the vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from ir.dtype import dtype
from ir.kernel.cpu.kernel import CpuKernel
from ir.kernel.cpu.nodes import CpuCall, Lanes, Load, Stmt
from ir.kernel.nodes import Const, KernelNode, Let, Pick, Reg, values_of, walk

_OPERATORS = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "neg": "-{}",
    "min": "{0} < {1} ? {0} : {1}",
    "max": "{0} > {1} ? {0} : {1}",
    "cmplt": "{} < {}",
    "cmple": "{} <= {}",
    "cmpgt": "{} > {}",
    "cmpge": "{} >= {}",
    "cmpeq": "{} == {}",
    "cmpne": "{} != {}",
    "and": "{} & {}",
    "or": "{} | {}",
    "xor": "{} ^ {}",
    "where": "{} ? {} : {}",
}
"""The functions of integers that C computes as the prelude does, once their result is converted to its dtype."""


def lone_registers(kernel: CpuKernel) -> frozenset[str]:
    """The registers that only such registers and `Pick` statements read, and that are computed from constants, indices
    and single elements of integers by `_OPERATORS`."""
    stmts = [stmt for phase in kernel.phases for stmt in walk(phase.body)]
    lone = {stmt.name for stmt in stmts if isinstance(stmt, Let)}
    while True:
        vectors = {name for stmt in stmts for name in _vectors(stmt, lone)}
        if not vectors & lone:
            return frozenset(lone)
        lone -= vectors


def is_lone(value: KernelNode, lone: Set[str]) -> bool:
    """Whether one number stands for the value: its registers are in `lone`."""
    match value:
        case Reg(name, element):
            return name in lone and _is_whole(element)
        case Const(_, element):
            return _is_whole(element)
        case Lanes(_, variable, _, growth):
            return variable is None and not growth
        case Load():
            return value.mode == "splat" and value.mask is None and _is_whole(value.dtype)
        case CpuCall(fn, args, element):
            known = fn in _OPERATORS or (fn == "cast" and element != "bool")
            return known and _is_whole(element) and all(is_lone(arg, lone) for arg in args)
        case _:
            return False


def call_text(call: CpuCall, operands: Iterable[str]) -> str:
    """A call of `_OPERATORS`, or a conversion, as a C expression that still has to be converted to the call's dtype."""
    return _OPERATORS.get(call.fn, "{}").format(*operands)


def _vectors(stmt: Stmt, lone: Set[str]) -> Iterator[str]:
    """The registers, among those that a statement sets and reads, that have to be vectors."""
    if isinstance(stmt, Let) and stmt.name in lone:
        if stmt.mutable or not is_lone(stmt.value, lone):
            yield stmt.name
        return
    if isinstance(stmt, Pick) and is_lone(stmt.value, lone):
        return
    yield from (value.name for value in values_of(stmt) if isinstance(value, Reg))


def _is_whole(element: str) -> bool:
    """Whether a dtype is bool or a dtype of integers."""
    return not dtype(element).is_float
