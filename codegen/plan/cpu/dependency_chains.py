"""Chains of functions, in which every function needs the result of the function before.

A core computes several points at once, but can run ahead only by a limited amount of work. If a chain takes longer than
that work, the core idles. Measured on a Zen 5 core, in cycles per register:

    exp(x) 6.1     exp(exp(x)) 19.3     exp(exp(exp(x))) 38.0     exp(x) + exp(y) + exp(z) + exp(w) 27.6
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from codegen.plan.op_weights import ADDITIONS_PER_CYCLE, weight
from ir.post_order import post_order
from ir.region.region import Op
from ir.target import Target

_ADDITION_CYCLES, _FUNCTION_CYCLES = 4.0, 45.0
"""Cycles from operand to result: of an addition, and at most of a function. A function's additions overlap, so that it
takes less than their number says."""
_HIDDEN_CYCLES, _AHEAD_CYCLES = 50.0, 70.0
"""A chain of `_HIDDEN_CYCLES` loses nothing. For every `_AHEAD_CYCLES` beyond, it loses the cycles of its own work once
more, but at most its whole length."""


@dataclass(frozen=True)
class _Chain:
    """The longest chain that ends at a value: cycles from its first operand to the value, and its additions-worth."""

    cycles: float = 0.0
    additions: float = 0.0


def chain_waits(values: Iterable[str], ops: Mapping[str, Op], in_chain: Callable[[str], bool], target: Target) -> float:
    """Additions-worth that a core loses per point of `values`, for the value that waits longest. A chain holds values
    for which `in_chain` holds."""

    if sum(_cycles(weight(op, target)) for name, op in ops.items() if in_chain(name)) <= _HIDDEN_CYCLES:
        return 0.0  # a chain of all these values loses nothing

    def below(name: str) -> list[str]:
        return [read for read in ops[name].reads if read in ops and in_chain(read)]

    chains: dict[str, _Chain] = {}
    for name in post_order([value for value in values if value in ops and in_chain(value)], below):
        before = max((chains[operand] for operand in below(name)), key=lambda chain: chain.cycles, default=_Chain())
        additions = weight(ops[name], target)
        chains[name] = _Chain(before.cycles + _cycles(additions), before.additions + additions)
    return max((_lost_additions(chain) for chain in chains.values()), default=0.0)


def _cycles(additions: float) -> float:
    """Cycles from an operand of an op to its result."""
    return min(_FUNCTION_CYCLES, _ADDITION_CYCLES * additions)


def _lost_additions(chain: _Chain) -> float:
    lost = chain.additions * max(0.0, chain.cycles - _HIDDEN_CYCLES) / _AHEAD_CYCLES
    return min(lost, max(0.0, chain.cycles * ADDITIONS_PER_CYCLE - chain.additions))
