"""Rewrite rules as typed terms: two sides, an equation for people, conditions, and a level of exactness."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ir.diagnostics import Kind, fail
from ir.grammar import with_article
from ir.term.language import App, Fact, Prim, Sort, Term, Var, sort_of, subterms, variables

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")

KEPT_RULES = 4096
"""Rules and clauses whose texts and needs a process keeps: more than `rules` has, with room for a caller's own."""


class Exactness(enum.IntEnum):
    """How far a rule's sides may differ on numbers; every level admits the levels before it.

    EXACT       the same numbers, NaN where it was NaN
    REASSOCIATE another order or grouping of the same sums and products
    ROUNDING    a CAST moved or dropped, a wider intermediate, or small tiles of a convolution
    RANGE       may overflow or cancel where its source did not, and takes inputs for finite
    """

    EXACT = 0
    REASSOCIATE = 1
    ROUNDING = 2
    RANGE = 3

    def __str__(self) -> str:
        return self.name.lower()


class Certificate(enum.StrEnum):
    """The evidence for a rule, which `rules.certificates` computes.

    PROVED  both sides read the same at every point, for all maps, operations and operands
    EXACT   rational functions, compared on random instances in exact arithmetic
    SAMPLED compared on random instances in floating point
    """

    PROVED = "proved"
    EXACT = "exact"
    SAMPLED = "sampled"


@dataclass(frozen=True)
class Equal:
    """The condition that two texts are the same."""

    left: Term
    right: Term

    def __post_init__(self) -> None:
        if any(sort_of(side) is not Sort.STR for side in (self.left, self.right)):
            raise TypeError(f"only texts can be compared: {self}")

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Exists:
    """The condition that a term of this pattern exists, whatever its value; the rule may use the variables it binds."""

    pattern: App

    def __str__(self) -> str:
        return f"there is {self.pattern}"


Condition = Prim | Equal | Fact | Exists
"""A primitive whose answer is not empty, two equal texts, a fact that an analysis knows, or another term."""


@dataclass(frozen=True)
class Rule:
    """`lhs` may be replaced by `rhs` where every condition in `when` holds.

    `equation` says the rule in mathematics; `rhs` may call primitives, and each must answer. passing: the buffer that
    the right side reads is a step to others, and worth no views of its own. opens: in a program with barriers, readers
    may compute the buffers that the right side stores.

    Raises:
        TypeError: the sides' sorts differ, a term is built wrongly, or a field is of another type.
        EqsatError: UnsoundRule, where a variable on the right is not bound on the left.
    """

    name: str
    family: str
    equation: str
    lhs: App
    rhs: Term
    when: tuple[Condition, ...] = ()
    exactness: Exactness = Exactness.EXACT
    passing: bool = False
    opens: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        check_name(self.family)
        if not isinstance(self.equation, str) or not isinstance(self.exactness, Exactness):
            raise TypeError(f"{self.name}: an equation is a text and exactness an ir.term.rule.Exactness")
        if sort_of(self.lhs) is not sort_of(self.rhs):
            raise TypeError(f"{self.name}: {with_article(sort_of(self.lhs).value)} is no {sort_of(self.rhs).value}")
        check_bound(self.name, self.patterns, (self.rhs, *condition_terms(self.when)))

    @property
    def patterns(self) -> tuple[App, ...]:
        """All that must be there: the left side, then the terms that conditions ask for."""
        return (self.lhs, *patterns_of(self.when))

    def map_terms(self, change: Callable[[Term], Term]) -> Rule:
        """The rule with a function applied to both sides and to the terms of its conditions."""
        lhs = change(self.lhs)
        assert isinstance(lhs, App)
        when = tuple(map_condition(condition, change) for condition in self.when)
        return replace(self, lhs=lhs, rhs=change(self.rhs), when=when)

    @property
    def bound(self) -> Mapping[str, Var]:
        """The variables that a match binds."""
        return {name: var for pattern in self.patterns for name, var in variables(pattern).items()}

    def __str__(self) -> str:
        conditions = f"  when {', '.join(map(str, self.when))}" if self.when else ""
        return f"{self.name} ({self.family}, {self.exactness}): {self.lhs} → {self.rhs}{conditions}"


@dataclass(frozen=True)
class Clause:
    """How an analysis learns: where `pattern` is found and the conditions hold, so does `fact` (with `value`).

    The fact is about the pattern itself (`pattern` left out) or about one of its variables.
    """

    fact: Fact
    when: tuple[Condition, ...] = ()
    value: Term | None = None
    pattern: App | None = None

    def __post_init__(self) -> None:
        analysis = self.fact.analysis
        if analysis.valued != (self.value is not None):
            raise TypeError(f"{analysis.name} {'needs a' if analysis.valued else 'has no'} value: {self.fact}")
        values = () if self.value is None else (self.value,)
        check_bound(analysis.name, self.patterns, (self.fact.term, *values, *condition_terms(self.when)))

    @property
    def match(self) -> App:
        """The pattern."""
        term = self.pattern or self.fact.term
        if not isinstance(term, App):
            raise TypeError(f"a clause needs a pattern: {self.fact}")
        return term

    @property
    def patterns(self) -> tuple[App, ...]:
        """All that must be there: the pattern, then the terms that conditions ask for."""
        return (self.match, *patterns_of(self.when))


def condition_terms(conditions: Iterable[Condition]) -> tuple[Term, ...]:
    """The terms in conditions."""
    return tuple(term for condition in conditions for term in _terms_of(condition))


def _terms_of(condition: Condition) -> tuple[Term, ...]:
    match condition:
        case Equal(left, right):
            return left, right
        case Exists(pattern):
            return (pattern,)
        case Prim() | Fact():
            return (condition,)
        case _:
            raise TypeError(f"{condition!r} is no condition: a primitive, a fact, Equal or Exists is one")


def map_condition(condition: Condition, change: Callable[[Term], Term]) -> Condition:
    """The condition with a function applied to its terms."""
    match condition:
        case Equal(left, right):
            return Equal(change(left), change(right))
        case Exists(pattern):
            changed = change(pattern)
            assert isinstance(changed, App)
            return Exists(changed)
    changed = change(condition)
    assert isinstance(changed, Prim | Fact)
    return changed


def patterns_of(conditions: Iterable[Condition]) -> tuple[App, ...]:
    """The terms that conditions ask for."""
    return tuple(condition.pattern for condition in conditions if isinstance(condition, Exists))


def steers(condition: Condition) -> bool:
    """Whether a condition guides the search: it has a fact or a primitive that steers."""
    parts = [part for term in _terms_of(condition) for part in subterms(term)]
    facts = any(part.analysis.steers for part in parts if isinstance(part, Fact))
    return facts or any(part.fn.steers for part in parts if isinstance(part, Prim))


def check_name(name: str) -> None:
    """A name is lower-case words joined by underscores, so that every printed form can hold it."""
    if not _NAME.match(name):
        fail(Kind.UNSOUND_RULE, "rules", f"{name!r} is no name for a rule or a family", hint="snake_case")


def check_bound(owner: str, patterns: Sequence[App], others: Iterable[Term]) -> None:
    """Patterns hold constructors, variables and constants; every other variable is bound by one of them."""
    bound: dict[str, Var] = {}
    for pattern in patterns:
        if any(isinstance(part, Prim | Fact) for part in subterms(pattern)):
            fail(Kind.UNSOUND_RULE, "rules", "a pattern cannot call functions", at=owner, pattern=str(pattern))
        for name, var in variables(pattern).items():
            if bound.setdefault(name, var) != var:
                raise TypeError(f"the variable {name} has two sorts in {owner}")
    for term in others:
        for name, var in variables(term).items():
            if bound.get(name) != var:
                fail(Kind.UNSOUND_RULE, "rules", f"the variable {name} is not bound on the left", at=owner)


def pattern_variables(spec: str) -> tuple[Var, ...]:
    """Variables written `name:letter`, as in "p:P m:S axis:I"; the letter is the sort (B P A E S I).

    Raises:
        EqsatError: UnsoundRule for any other text.
    """
    sorts = {"B": Sort.BUF, "P": Sort.PRO, "A": Sort.ACC, "E": Sort.EPI, "S": Sort.STR, "I": Sort.I64}
    terms = []
    for variable in spec.split():
        name, _, letter = variable.partition(":")
        if not name.isidentifier() or letter not in sorts:
            hint = f"name:letter, as in p:P; a letter is one of {' '.join(sorts)}"
            fail(Kind.UNSOUND_RULE, "rules", f"{variable!r} is no pattern variable", hint=hint)
        terms.append(Var(name, sorts[letter]))
    return tuple(terms)
