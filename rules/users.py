"""Rules of a caller: each rule is checked once per process before it is used, and is then named by its content."""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path

import numpy as np

from ir.diagnostics import EqsatError, Kind, fail
from ir.term.language import App, Fact, Prim, Primitive, Term, Var
from ir.term.rule import Condition, Equal, Exists, Rule
from rules.soundness import check
from rules.words import check_words

SEED = 20_261_121
INSTANCES, ATTEMPTS, SECONDS = 300, 60_000, 5.0
FEWEST = 20
"""The fewest random instances on which a rule counts as checked."""

_ADMITTED: dict[str, Rule] = {}
"""The checked rules, by reference."""


def admit(rule: Rule) -> str:
    """Check a rule, and return its reference `name@digest`: `find_admitted` and artifacts name the rule by it.

    The check compares up to 300 random instances and takes 5 s at most. It runs once for the content of a rule.

    Raises:
        EqsatError: UnsoundRule, with a counterexample, or where too few instances were found, or for a name of no op or
            dtype.
    """
    reference = f"{rule.name}@{digest(rule)}"
    if reference not in _ADMITTED:
        check_words(rule)
        try:
            applied = check(rule, np.random.default_rng(SEED), INSTANCES, ATTEMPTS, SECONDS)
        except EqsatError as error:
            raise error if error.diagnostics[0].at else error.locate(at=rule.name, op="rule") from None
        if applied < FEWEST:
            fail(
                Kind.UNSOUND_RULE,
                "rules",
                f"the rule cannot be checked: it applied to {applied} random instances, {FEWEST} are needed",
                at=rule.name,
                hint="a pattern that random shapes, dtypes and maps can meet; conditions that hold more often",
                lhs=str(rule.lhs),
                when=[str(condition) for condition in rule.when],
            )
        _ADMITTED[reference] = rule
    return reference


def find_admitted(reference: str) -> Rule:
    """The rule of a reference. Raises EqsatError, InvalidOption, for a rule that this process has not checked."""
    if reference not in _ADMITTED:
        name = reference.partition("@")[0]
        hint = "make the program again from Python, with that rule"
        fail(Kind.INVALID_OPTION, "rules", f"the program was made with a rule of its caller's, {name}", hint=hint)
    return _ADMITTED[reference]


def digest(rule: Rule) -> str:
    """SHA-256 of the whole rule, with the source of its primitives; 16 hexadecimal digits."""
    parts = [rule.name, rule.family, rule.equation, str(rule.exactness), _spell(rule.lhs), _spell(rule.rhs)]
    parts += map(_spell_condition, rule.when)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _spell_condition(condition: Condition) -> str:
    if isinstance(condition, Exists):
        return f"there is {_spell(condition.pattern)}"
    if isinstance(condition, Equal):
        return f"{_spell(condition.left)} = {_spell(condition.right)}"
    return _spell(condition)


def _spell(term: Term) -> str:
    """The text of a term, in which variables and constants look different."""
    match term:
        case Var():
            return f"?{term.name}:{term.sort.value}"
        case App():
            return f"{term.ctor.name}({', '.join(map(_spell, term.args))})"
        case Prim():
            return f"{term.fn.path}#{_source(term.fn)}({', '.join(map(_spell, term.args))})"
        case Fact():
            return f"{term.analysis.name}({_spell(term.term)})"
        case _:
            return json.dumps(term)


def _source(primitive: Primitive) -> str:
    """SHA-256 of the file that defines a primitive, since the functions that it calls are there as well; of its code
    where there is no file."""
    try:
        text = Path(inspect.getfile(primitive.fn)).read_bytes()
    except (OSError, TypeError):
        code = primitive.fn.__code__
        text = code.co_code + repr((code.co_names, code.co_consts)).encode()
    return hashlib.sha256(text).hexdigest()
