"""Mutants of the rules, generated: what the soundness checker lets pass, it does not check.

    python -m tests.rules.mutants [RULE …]

Each side condition is dropped, each two variables of one sort are swapped (on the right side, and in the conditions),
each map, size, type, axis and place on the right side is shifted, and the level of exactness is lowered. A mutant is
killed by a counterexample. It is failing where a primitive refuses its texts, which stops the engine; steering where
only facts that steer the search are gone; idle where it applies to nothing; the same where it makes the very terms of
the rule, to whatever it applies. All others survive, and `tests.rules.equivalent` tells why each is no mistake.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache, partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ir.diagnostics import EqsatError
from ir.dtype import TensorType
from ir.index.map import compose, parse_map
from ir.index.moves import flip
from ir.term.language import App, Prim, Primitive, Sort, Term, Var, substitute, subterms
from ir.term.rule import Exactness, Exists, Rule, map_condition, steers
from ir.term.text import parse_sizes, parse_type, sizes_text, type_text
from rules import RULES
from rules.epilogues import in_epilogue
from rules.instances import Instance
from rules.soundness import Draw, difference, draw_instances, rewrite

INSTANCES, ENOUGH, ATTEMPTS = 300, 1_000, 6_000
"""A mutant is compared where it differs from its rule, on so many instances; it is the same if it is on ENOUGH. A level
that is too low shows on few instances, so that ENOUGH are compared."""
NEEDED = 25
"""An idle mutant applies to nothing; one that applies to fewer, or differs on fewer, is sought longer."""


Put = Callable[[Term], Term]


class Verdict(StrEnum):
    KILLED = "killed"
    FAILS = "failing"
    STEERING = "steering"
    IDLE = "idle"
    SAME = "the same"
    SURVIVES = "survives"


class Mutant(NamedTuple):
    """A rule with one change, in words."""

    rule: Rule
    change: str
    steers: bool = False


def _shifted_map(view: str) -> str:
    """The map, its first long axis running backwards."""
    result = parse_map(view)
    long = [k for k, size in enumerate(result.sizes) if size > 1]
    return str(compose(result, flip(result.sizes, long[:1]))) if long and not result.is_empty else ""


def _shifted_sizes(sizes: str) -> str:
    """The sizes, turned by one; one more where that changes nothing."""
    return sizes_text(_turned(parse_sizes(sizes)))


def _shifted_type(type_: str) -> str:
    result = parse_type(type_)
    return type_text(TensorType.of(result.dtype, _turned(result.shape)))


def _turned(sizes: tuple[int, ...]) -> tuple[int, ...]:
    turned = sizes[1:] + sizes[:1]
    return turned if turned != sizes else tuple(size + 1 for size in sizes)


SHIFTS = {
    "map": Primitive(_shifted_map),
    "sizes": Primitive(_shifted_sizes),
    "type": Primitive(_shifted_type),
}


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every mutant of a rule that can be written down."""
    for mutant in (*_dropped(rule), *_swapped(rule), *_shifted(rule), *_lowered(rule)):
        if mutant.rule != rule:
            yield mutant


def judge(rule: Rule, mutant: Mutant) -> Verdict:
    """What the soundness checker says of a mutant of a rule."""
    if mutant.steers:
        return Verdict.STEERING
    lowered = mutant.rule.exactness is not rule.exactness
    wanted, needed = (ENOUGH, ENOUGH) if lowered else (INSTANCES, NEEDED)
    applied = differing = 0
    for attempts in (ATTEMPTS, 4 * ATTEMPTS):
        try:
            for instance in _instances(Draw.of(mutant.rule), attempts):
                rhs = rewrite(mutant.rule, instance)
                if rhs is None:
                    continue
                applied += 1
                if lowered or rhs != _unchanged(rule, instance):
                    differing += 1
                    if difference(mutant.rule, instance, rhs) is not None:
                        return Verdict.KILLED
                if differing == wanted or applied == ENOUGH:
                    break
        except EqsatError:
            return Verdict.FAILS
        if not (0 < applied < needed or 0 < differing < needed):
            break
    if not applied:
        return Verdict.IDLE
    return Verdict.SURVIVES if differing else Verdict.SAME


@lru_cache(maxsize=1 << 13)
def _unchanged(rule: Rule, instance: Instance) -> Term | None:
    """What the rule itself makes of an instance."""
    return rewrite(rule, instance)


@lru_cache(maxsize=4)
def _instances(draw: Draw, attempts: int) -> Replayed:
    """The instances that mutants are tried on: most mutants of a rule are drawn alike."""
    return Replayed(draw_instances(draw, np.random.default_rng(7 + attempts), attempts))


class Replayed:
    """What an iterator gives, once for each that asks."""

    def __init__(self, source: Iterator[Instance]) -> None:
        self._source, self._given = source, list[Instance]()

    def __iter__(self) -> Iterator[Instance]:
        at = 0
        while True:
            if at == len(self._given):
                result = next(self._source, None)
                if result is None:
                    return
                self._given.append(result)
            yield self._given[at]
            at += 1


def _dropped(rule: Rule) -> Iterator[Mutant]:
    for at, condition in enumerate(rule.when):
        if not isinstance(condition, Exists):
            rest = rule.when[:at] + rule.when[at + 1 :]
            yield Mutant(replace(rule, when=rest), f"without {condition}", steers(condition))


def _swapped(rule: Rule) -> Iterator[Mutant]:
    result = sorted(rule.bound.values(), key=lambda var: var.name)
    for x, y in combinations(result, 2):
        if x.sort is y.sort:
            swap = {x.name: y, y.name: x}
            yield Mutant(replace(rule, rhs=substitute(rule.rhs, swap)), f"{x} ↔ {y} on the right")
            for at, condition in enumerate(rule.when):
                if isinstance(condition, Exists):
                    continue
                other = map_condition(condition, partial(substitute, binding=swap))
                when = (*rule.when[:at], other, *rule.when[at + 1 :])
                yield Mutant(replace(rule, when=when), f"{x} ↔ {y} in {condition}", steers(condition))


def _shifted(rule: Rule) -> Iterator[Mutant]:
    roles = _roles(rule)
    for number, (term, put) in enumerate(_places(rule.rhs, roles, lambda changed: changed)):
        for other in _others(term, roles):
            yield Mutant(replace(rule, rhs=put(other)), f"{other} for {term}, place {number}")


def _roles(rule: Rule) -> dict[Term, str]:
    """What each variable of the left side stands for where it is a text: a map, sizes, a type."""
    apps = (subterm for side in rule.patterns for subterm in subterms(side) if isinstance(subterm, App))
    fields = (field for app in apps for field in app.fields.items())
    return {arg: field for field, arg in fields if isinstance(arg, Var) and field in SHIFTS}


def _others(term: Term, roles: dict[Term, str]) -> list[Term]:
    if term in roles:
        return [SHIFTS[roles[term]](term)]
    if isinstance(term, Var) and term.sort is Sort.I64:
        return [0, 1]
    return [str((int(str(term)) + 1) % 3)] if term in ("0", "1", "2") else []


def _places(term: Term, roles: dict[Term, str], put: Put) -> Iterator[tuple[Term, Put]]:
    """Every subterm that can be shifted, and the function that puts another in its place."""
    if _others(term, roles):
        yield term, put
    if isinstance(term, App | Prim):
        for at, arg in enumerate(term.args):

            def putting(changed: Term, at: int = at) -> Term:
                return put(
                    replace(term, args=tuple(changed if k == at else argument for k, argument in enumerate(term.args)))
                )

            yield from _places(arg, roles, putting)


def _lowered(rule: Rule) -> Iterator[Mutant]:
    """Not from ROUNDING to REASSOCIATE: the bounds of both are the same."""
    if rule.exactness in (Exactness.REASSOCIATE, Exactness.RANGE):
        level = Exactness(rule.exactness - 1)
        yield Mutant(replace(rule, exactness=level), f"at the level {level}")


def originals(rules: Iterable[Rule] = RULES) -> list[Rule]:
    """The rules without those that are made from another: what kills a mutant of the one kills its twin's."""
    results = {rule.name: rule for rule in rules}
    return [rule for rule in results.values() if not _is_twin(rule, results.get(rule.name.removesuffix("_epilogue")))]


def _is_twin(rule: Rule, original: Rule | None) -> bool:
    return original is not None and original is not rule and in_epilogue(original) == rule


def survivors(rule: Rule, counts: Counter[Verdict] | None = None) -> dict[str, Mutant]:
    """The surviving mutants of a rule by their change; `counts` grows by all verdicts."""
    alive = {}
    for mutant in mutants(rule):
        verdict = judge(rule, mutant)
        if counts is not None:
            counts[verdict] += 1
        if verdict is Verdict.SURVIVES:
            alive[mutant.change] = mutant
    return alive


def main(names: list[str]) -> None:
    from tests.rules.equivalent import EQUIVALENT

    counts: Counter[Verdict] = Counter()
    for rule in originals():
        if not names or rule.name in names:
            for change, mutant in survivors(rule, counts).items():
                why = EQUIVALENT.get((rule.name, change), f"NOT EXPLAINED: {mutant.rule}")
                print(f"{rule.name}: {change}\n    {why}", flush=True)
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict))


if __name__ == "__main__":
    main(sys.argv[1:])
