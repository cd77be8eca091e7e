"""Chains of functions: what a core waits for because each needs the result of the one before.

A core starts the next points while one is under way, but only so much work ahead: where the functions of a point take
longer, one after another, than that work, it idles. Measured on a Zen 5 core in cycles per register:

    exp(x) 6.1     exp(exp(x)) 19.3     exp(exp(exp(x))) 38.0     exp(x) + exp(y) + exp(z) + exp(w) 27.6
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from codegen.plan.op_weights import ADDITIONS_PER_CYCLE, weight
from ir.post_order import post_order
from ir.region.region import Op
from ir.target import Target

_STEP_CYCLES, _FUNCTION_CYCLES = 4.0, 45.0
"""Until the result of an addition can be used, and at most that of a function, however many additions it is worth:
most of them do not wait for each other."""
_HIDDEN_CYCLES, _AHEAD_CYCLES = 50.0, 70.0
"""Of a chain as long as the first no cycle is lost; each time the second that it is longer, as many as its own work,
until points follow each other and all of the chain is waited for."""


@dataclass(frozen=True)
class _Chain:
    """The longest chain up to a value: cycles from its first operand to its result, and its additions-worth."""

    cycles: float = 0.0
    additions: float = 0.0


def chain_waits(values: Iterable[str], ops: Mapping[str, Op], goes_on: Callable[[str], bool], target: Target) -> float:
    """Additions-worth that a core loses at each point of `values`, those of the value that waits longest; chains go
    down through the values that `goes_on` admits; none are long where all these together are short."""

    together = (_cycles(weight(op, target)) for name, op in ops.items() if goes_on(name))
    if sum(together) <= _HIDDEN_CYCLES:
        return 0.0

    def below(name: str) -> list[str]:
        return [each for each in ops[name].reads if each in ops and goes_on(each)]

    chains: dict[str, _Chain] = {}
    for name in post_order([each for each in values if each in ops and goes_on(each)], below):
        before = max((chains[each] for each in below(name)), key=lambda chain: chain.cycles, default=_Chain())
        additions = weight(ops[name], target)
        chains[name] = _Chain(before.cycles + _cycles(additions), before.additions + additions)
    return max((_lost(each) for each in chains.values()), default=0.0)


def _cycles(additions: float) -> float:
    """From an operand of an op to its result."""
    return min(_FUNCTION_CYCLES, _STEP_CYCLES * additions)


def _lost(chain: _Chain) -> float:
    lost = chain.additions * max(0.0, chain.cycles - _HIDDEN_CYCLES) / _AHEAD_CYCLES
    return min(lost, max(0.0, chain.cycles * ADDITIONS_PER_CYCLE - chain.additions))
