"""Options of a compilation; every field has a default."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np

from eqsat.cost.cost_model import CostModel, own_terms_of
from eqsat.cost.own_terms import PART_OF, CostTerm, admit
from eqsat.cost.roofline import ALL_TERMS, TERM_NAMES, Terms
from ir.diagnostics import Diagnostic, Kind, fail, note
from ir.target import Target
from ir.term.rule import Exactness, Rule
from ir.uop.args import is_text

T = TypeVar("T")

STAGE = "options"
RuleChoice: TypeAlias = "Sequence[str | Rule] | str | Rule | None"
"""The type of `rules=`."""

CostModelChoice: TypeAlias = (
    "str | Sequence[str] | Mapping[str, CostTerm | bool | None] | CostModel | type[CostModel] | Terms"
)
"""The type of `cost_model=`: "roofline" (all terms), "-name"s of terms to leave out, functions by the name of the term
that each replaces or adds (None leaves a term out), a subclass of `CostModel` or an instance, or `Terms`."""


class Budget(msgspec.Struct, frozen=True):
    """Limits of saturation: `optimize_and_compile(model, budget=Budget(nodes=50_000, seconds=2))`.

    nodes       e-nodes in total (None: 120,000, or 60 per uop if that is more); each phase may use a share of them. A
                rule that could match more than four times as often in one iteration is stopped.
    iterations  per phase (None: 200, or one per uop if that is more). Rules that still match after 100 or more rest in
                later phases.
    copies      maps at which one producer may be computed again inside its readers; beyond, it is stored and read
    seconds     of wall time (None: no limit)
    bytes       of memory that saturation takes (None: no limit)

    Stopping at a limit is a warning in `program.diagnostics`; the e-graph so far is used. `seconds` and `bytes` can end
    an iteration at any call of a primitive, so the result may differ from run to run.
    """

    nodes: int | None = None
    iterations: int | None = None
    copies: int = 16
    seconds: float | None = None
    bytes: int | None = None

    def nodes_for(self, uops: int) -> int:
        """The limit for a graph with this many uops."""
        return max(120_000, 60 * uops) if self.nodes is None else self.nodes

    def iterations_for(self, uops: int) -> int:
        """The limit of each phase for a graph with this many uops."""
        return max(200, uops) if self.iterations is None else self.iterations


class Options(msgspec.Struct, frozen=True):
    """The keywords of `optimize_and_compile` that determine the resulting program.

    rules: as read by `rules.select` (None: every family); a caller's own rule is listed as `name@digest`, so that an
    artifact belongs to exactly these rules. exactness: the highest level allowed. extractor: by name. cost_model: the
    terms that count.
    autotune: choose covers and plans by measurement, within so many seconds (True: however long it takes). tf32:
    products of fp32 may round their operands to tf32. updates: pairs of a result and the argument that it updates.
    """

    rules: tuple[str, ...] | None = None
    exactness: Exactness = Exactness.ROUNDING
    extractor: str = "pareto"
    cost_model: Terms = ALL_TERMS
    budget: Budget = Budget()
    autotune: bool | float = False
    tf32: bool = False
    updates: tuple[tuple[str, str], ...] = ()

    @property
    def flushes(self) -> bool:
        """Whether denormals may count as 0."""
        return self.exactness > Exactness.EXACT

    @property
    def ordered(self) -> bool:
        """Whether floating-point sums keep the order of their terms."""
        return self.exactness < Exactness.REASSOCIATE


class Running(msgspec.Struct, frozen=True):
    """How a GPU's program runs; the program is the same. emulate: in the emulator. graph: calls after the first one run
    as one CUDA graph."""

    emulate: bool = False
    graph: bool = False


ON_TARGET = Running()


def check_running(emulate: bool, graph: bool, target: Target, autotune: bool | float = False) -> Running:
    """Raises EqsatError, InvalidOption, for a GPU's option on a CPU target, and for autotuning in the emulator."""
    if emulate and autotune:
        message = "autotune= measures kernels, and an emulated program has no times"
        fail(Kind.INVALID_OPTION, STAGE, message, hint="leave out emulate=True on a machine with a GPU")
    for name, wanted in (("emulate", emulate), ("graph", graph)):
        if wanted and not target.is_gpu:
            message = f"{name}= is for programs of a GPU, and this one is for {target.name}"
            fail(Kind.INVALID_OPTION, STAGE, message, hint='target="sm_80"')
    return Running(bool(emulate), bool(graph))


def check_options(
    rules: RuleChoice,
    exactness: str | Exactness,
    extractor: str,
    cost_model: CostModelChoice,
    budget: Budget | None,
    autotune: bool | float = False,
    tf32: bool = False,
    updates: Mapping[str, str] | None = None,
) -> Options:
    """The checked options.

    Raises:
        EqsatError: InvalidOption for an unknown family, rule, level, extractor, cost model or budget, with the known
            ones. UnsoundRule for a rule of the caller's that does not hold.
    """
    from eqsat.extraction.covering.extractors import EXTRACTORS

    known = {name: name for name in EXTRACTORS}
    level = exactness_named(exactness)
    return Options(
        rules=_chosen_rules(rules, level),
        exactness=level,
        extractor=_one_of("extractor", extractor, known),
        cost_model=chosen_terms(cost_model),
        budget=_check_budget(budget),
        autotune=_check_autotune(autotune),
        tf32=bool(tf32),
        updates=_check_updates(updates),
    )


def _check_updates(wanted: object) -> tuple[tuple[str, str], ...]:
    """The pairs of `updates=`, sorted. Raises EqsatError, InvalidOption, unless it maps names to different names."""
    pairs = {} if wanted is None else wanted
    hint = 'updates={"present": "past"}: argument by result'
    if not isinstance(pairs, Mapping) or not all(isinstance(name, str) for pair in pairs.items() for name in pair):
        fail(Kind.INVALID_OPTION, STAGE, f"updates= maps results to arguments, not {wanted!r}", hint=hint)
    arguments = list(pairs.values())
    twice = sorted({name for name in arguments if arguments.count(name) > 1})
    if twice:
        fail(Kind.INVALID_OPTION, STAGE, f"updates= has several results for {', '.join(twice)}", hint=hint)
    return tuple(sorted(pairs.items()))


def usable(options: Options, target: Target) -> tuple[Options, tuple[Diagnostic, ...]]:
    """The options that have an effect on the target, and a note on an option that has none."""
    if not options.tf32:
        return options, ()
    if not target.is_gpu:
        why = f"tf32= is for the tensor cores of a GPU, and changes nothing on {target.name}"
    elif options.exactness < Exactness.ROUNDING:
        why = f"tf32= rounds operands, which exactness={str(options.exactness)!r} forbids: it changes nothing"
    else:
        return options, ()
    return msgspec.structs.replace(options, tf32=False), (note(Kind.INVALID_OPTION, STAGE, why),)


def exactness_named(wanted: str | Exactness) -> Exactness:
    """The level of this name. Raises EqsatError, InvalidOption, if there is none."""
    if isinstance(wanted, Exactness):
        return wanted
    return _one_of("exactness", wanted, {str(level): level for level in Exactness})


def chosen_terms(wanted: CostModelChoice) -> Terms:
    """The terms of the cost model that count. Raises EqsatError, InvalidOption, for an unknown name, and for a term
    that is no function of a kernel."""
    if isinstance(wanted, Terms):
        return wanted
    if isinstance(wanted, CostModel) or (isinstance(wanted, type) and issubclass(wanted, CostModel)):
        return _own_terms(own_terms_of(wanted))
    if isinstance(wanted, Mapping):
        if not wanted:
            hint = 'cost_model={"launch": lambda kernel: 5_000.0, "fanout": None}'
            fail(Kind.INVALID_OPTION, STAGE, "cost_model={} names no term", hint=hint)
        return _own_terms(wanted)
    known = {"roofline": "", **{f"-{name}": name for name in TERM_NAMES}}
    listed = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    left_out = [_one_of("cost_model", name, known) for name in listed]
    return msgspec.structs.replace(ALL_TERMS, **{name: False for name in left_out if name})


def _own_terms(wanted: Mapping[str, object]) -> Terms:
    """The terms by name: a function replaces or adds a term, None or False leaves it out, True keeps it."""
    switches: dict[str, bool] = {}
    own: list[str] = []
    for name, term in wanted.items():
        if not isinstance(name, str) or not name.isidentifier():
            fail(Kind.INVALID_OPTION, STAGE, f"cost_model: {name!r} is no name of a term", hint=", ".join(TERM_NAMES))
        if callable(term):
            if name in TERM_NAMES and name not in PART_OF:
                message = f"cost_model: the term {name!r} is no time, so that no function can replace it"
                hint = f"None to leave it out; functions for {', '.join(PART_OF)}, or under another name"
                fail(Kind.INVALID_OPTION, STAGE, message, hint=hint)
            own.append(admit(name, term))
        elif term is not None and not isinstance(term, bool):
            message = f"cost_model: the term {name!r} cannot be {term!r}"
            hint = "a function of a kernel that returns ns, such as lambda kernel: 5_000.0; None leaves a term out"
            fail(Kind.INVALID_OPTION, STAGE, message, hint=hint)
        elif name not in TERM_NAMES:
            message = f"cost_model: there is no term {name!r} to {'keep' if term else 'leave out'}"
            fail(Kind.INVALID_OPTION, STAGE, message, hint=", ".join(TERM_NAMES))
        else:
            switches[name] = bool(term)
    return msgspec.structs.replace(ALL_TERMS, **switches, own=tuple(own))


def check_threads(wanted: int | np.integer | None, default: int) -> int:
    """Threads of a call; None is `default`. Raises EqsatError, InvalidOption, for less than one."""
    if wanted is None:
        return default
    if not is_count(wanted, least=1):
        fail(Kind.INVALID_OPTION, STAGE, f"threads= is a number from 1 on, not {wanted!r}")
    return int(wanted)


def is_count(value: object, least: int = 0, most: int = 2**31 - 1) -> bool:
    """Whether `value` is an integer, no bool, from `least` to `most`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= int(value) <= most


def check_switches(progress: object, **switches: object) -> None:
    """Raises EqsatError, InvalidOption, unless each switch is True or False. `progress` may also be callable."""
    for name, value in switches.items():
        if not isinstance(value, bool | np.bool):
            fail(Kind.INVALID_OPTION, STAGE, f"{name}= is True or False, not {value!r}")
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        fail(Kind.INVALID_OPTION, STAGE, f"progress= is True, or a function of a stage's name, not {progress!r}")


def check_mapping(name: str, value: object) -> None:
    """Raises EqsatError, InvalidOption, unless the value of an option is None or a mapping."""
    if value is not None and not isinstance(value, Mapping):
        fail(Kind.INVALID_OPTION, STAGE, f"{name}= is a mapping, not {value!r}", hint=f'{name}={{"dot_relu": …}}')


def check_path(path: object) -> Path:
    """The path of a file. Raises EqsatError, InvalidOption, for a value that cannot be a path."""
    if not isinstance(path, str | os.PathLike) or not str(path) or "\0" in str(path) or not is_text(str(path)):
        fail(Kind.INVALID_OPTION, STAGE, f"{path!r} is no path of a file")
    return Path(path)


def _chosen_rules(rules: RuleChoice, level: Exactness) -> tuple[str, ...] | None:
    if rules is None:
        return None
    from rules import FAMILIES, select

    listed = tuple(rules) if isinstance(rules, list | tuple) else (rules,)
    if not all(isinstance(item, Rule) or (isinstance(item, str) and "@" not in item) for item in listed):
        contents = "names of families, -names to leave out, and rules"
        fail(Kind.INVALID_OPTION, STAGE, f"rules= lists {contents}, not {rules!r}", hint=", ".join(FAMILIES))
    names = tuple(item if isinstance(item, str) else _admit(item, level) for item in listed)
    select(names)
    return names


def _admit(rule: Rule, level: Exactness) -> str:
    """The reference of a caller's rule, after a check that it is sound and allowed."""
    from rules import RULES
    from rules.users import admit

    if any(rule.name == known.name for known in RULES):
        hint = "give it another name"
        fail(Kind.INVALID_OPTION, STAGE, f"there is a rule {rule.name} already", at=rule.name, hint=hint)
    if rule.exactness > level:
        message = f"the rule is of level {rule.exactness}, exactness= allows {level}"
        fail(Kind.INVALID_OPTION, STAGE, message, at=rule.name, hint=f'exactness="{rule.exactness}"')
    return admit(rule)


def _one_of(option: str, wanted: object, known: Mapping[str, T]) -> T:
    if not isinstance(wanted, str) or wanted not in known:
        fail(Kind.INVALID_OPTION, STAGE, f"{option}= cannot be {wanted!r}", hint=", ".join(known))
    return known[wanted]


def _check_autotune(wanted: object) -> bool | float:
    if isinstance(wanted, bool | np.bool):
        return bool(wanted)
    if not isinstance(wanted, int | float | np.integer | np.floating) or not 0 < float(wanted) < float("inf"):
        message = f"autotune= is True, False or a number of seconds above 0, not {wanted!r}"
        fail(Kind.INVALID_OPTION, STAGE, message, hint="autotune=30")
    return float(wanted)


def _check_budget(budget: Budget | None) -> Budget:
    if budget is None:
        return Budget()
    if not isinstance(budget, Budget):
        hint = "eqsat.Budget(nodes=…, iterations=…)"
        fail(Kind.INVALID_OPTION, STAGE, f"budget= cannot be {budget!r}", hint=hint)
    counts = {"nodes": budget.nodes or 0, "iterations": budget.iterations or 0, "copies": budget.copies}
    wrong = [name for name, count in counts.items() if not is_count(count)]
    if budget.bytes is not None and not is_count(budget.bytes, most=2**63 - 1):
        wrong.append("bytes")
    seconds = budget.seconds
    if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
        wrong.append("seconds")
    if wrong:
        fail(Kind.INVALID_OPTION, STAGE, f"budget: {', '.join(wrong)} must be 0 or more", budget=str(budget))
    return budget
