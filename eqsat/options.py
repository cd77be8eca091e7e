"""What a caller may choose about a compilation; every field has a good default."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np

from eqsat.cost.roofline import ALL_TERMS, Terms
from ir.diagnostics import Diagnostic, Kind, fail, note
from ir.target import Target
from ir.term.rule import Exactness, Rule
from ir.uop.args import is_text

T = TypeVar("T")

STAGE = "options"
RuleChoice: TypeAlias = "Sequence[str | Rule] | str | Rule | None"
"""What `rules=` takes."""

CostModel: TypeAlias = "str | Sequence[str] | Terms"
"""What `cost_model=` takes: "roofline" (all of §11), "-name"s of terms to leave out, or the `Terms` themselves."""


class Budget(msgspec.Struct, frozen=True):
    """Limits of saturation.

    nodes       e-nodes in all (None: 120,000, or 60 a uop where that is more); a phase leaves some to those after it.
                A rule that could match more than four times as often in one iteration rests from then on.
    iterations  per phase (None: 200, or 4 a uop where that is more)
    copies      maps at which one producer is computed again inside its readers; beyond, it is stored and read
    seconds     of wall clock (None: no limit)
    bytes       of memory that saturation takes (None: no limit)

    A stop at a limit is a warning in `program.diagnostics`: what was found until then is used. `seconds` and `bytes`
    end an iteration of the engine wherever it calls a primitive; a stop at one of them may differ from run to run.
    """

    nodes: int | None = None
    iterations: int | None = None
    copies: int = 16
    seconds: float | None = None
    bytes: int | None = None

    def nodes_for(self, uops: int) -> int:
        """The limit for a graph of so many uops."""
        return max(120_000, 60 * uops) if self.nodes is None else self.nodes

    def iterations_for(self, uops: int) -> int:
        """The limit of each phase for a graph of so many uops."""
        return max(200, 4 * uops) if self.iterations is None else self.iterations


class Options(msgspec.Struct, frozen=True):
    """The keywords of `optimize_and_compile` that decide which program comes out.

    rules: as `rules.select` reads them (None: every family); a caller's rule stands there as
    `name@digest`, so that no artifact is taken for one of other rules. exactness: the highest level allowed.
    extractor: by name. cost_model: the terms of §11 that count. autotune: plans are chosen by measurement. tf32:
    products of fp32 may round their operands to it.
    """

    rules: tuple[str, ...] | None = None
    exactness: Exactness = Exactness.ROUNDING
    extractor: str = "pareto"
    cost_model: Terms = ALL_TERMS
    budget: Budget = Budget()
    autotune: bool = False
    tf32: bool = False

    @property
    def flushes(self) -> bool:
        """Whether denormals may count as 0."""
        return self.exactness > Exactness.EXACT

    @property
    def ordered(self) -> bool:
        """Whether floating-point sums keep the order of their terms."""
        return self.exactness < Exactness.REASSOCIATE


class Running(msgspec.Struct, frozen=True):
    """How a program of a GPU runs; the program is the same. emulate: by the emulator. graph: calls after the first are
    one CUDA graph."""

    emulate: bool = False
    graph: bool = False


ON_TARGET = Running()


def checked_running(emulate: bool, graph: bool, target: Target, autotune: bool = False) -> Running:
    """Raises EqsatError, InvalidOption, for what is asked of a GPU's program where there is none, and for measurements
    of one that is emulated."""
    if emulate and autotune:
        message = "autotune= measures kernels, and an emulated program has no times"
        fail(Kind.INVALID_OPTION, STAGE, message, hint="leave out emulate=True on a machine with a GPU")
    for name, wanted in (("emulate", emulate), ("graph", graph)):
        if wanted and not target.is_gpu:
            message = f"{name}= is for programs of a GPU, and this one is for {target.name}"
            fail(Kind.INVALID_OPTION, STAGE, message, hint='target="sm_80"')
    return Running(bool(emulate), bool(graph))


def checked_options(
    rules: RuleChoice,
    exactness: str | Exactness,
    extractor: str,
    cost_model: CostModel,
    budget: Budget | None,
    autotune: bool = False,
    tf32: bool = False,
) -> Options:
    """The options as they were asked for.

    Raises:
        EqsatError: InvalidOption for an unknown family, rule, level, extractor, cost model or budget; it lists what
            there is. UnsoundRule for a rule of the caller's that does not hold.
    """
    from eqsat.extraction.extractors import EXTRACTORS

    known = {name: name for name in EXTRACTORS}
    level = exactness_named(exactness)
    return Options(
        rules=_chosen_rules(rules, level),
        exactness=level,
        extractor=_one_of("extractor", extractor, known),
        cost_model=chosen_terms(cost_model),
        budget=_checked_budget(budget),
        autotune=bool(autotune),
        tf32=bool(tf32),
    )


def usable(options: Options, target: Target) -> tuple[Options, tuple[Diagnostic, ...]]:
    """The options without a permission that nothing on the target can use, and a note of it."""
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
    """The level of that name. Raises EqsatError, InvalidOption, for a name that is none."""
    if isinstance(wanted, Exactness):
        return wanted
    return _one_of("exactness", wanted, {str(level): level for level in Exactness})


def chosen_terms(wanted: CostModel) -> Terms:
    """The terms of §11 that count. Raises EqsatError, InvalidOption, for what names no model and no term."""
    if isinstance(wanted, Terms):
        return wanted
    known = {"roofline": "", **{f"-{name}": name for name in Terms.__struct_fields__}}
    listed = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    left_out = [_one_of("cost_model", each, known) for each in listed]
    return Terms(**{name: False for name in left_out if name})


def checked_threads(wanted: int | np.integer | None, default: int) -> int:
    """Threads of a call; None is `default`. Raises EqsatError, InvalidOption, unless it is at least one."""
    if wanted is None:
        return default
    if not is_count(wanted, least=1):
        fail(Kind.INVALID_OPTION, STAGE, f"threads= is a number from 1 on, not {wanted!r}")
    return int(wanted)


def is_count(value: object, least: int = 0, most: int = 2**31 - 1) -> bool:
    """Whether `value` is an integer, no bool, from `least` to `most`: the greatest of 32 bits, unless told."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= int(value) <= most


def check_switches(progress: object, **switches: object) -> None:
    """Raises EqsatError, InvalidOption, unless each switch is on or off and `progress` can be called."""
    for name, value in switches.items():
        if not isinstance(value, bool | np.bool):
            fail(Kind.INVALID_OPTION, STAGE, f"{name}= is True or False, not {value!r}")
    if progress is not None and not callable(progress):
        fail(Kind.INVALID_OPTION, STAGE, f"progress= is a function of a stage's name, not {progress!r}")


def checked_path(path: object) -> Path:
    """The path of a file. Raises EqsatError, InvalidOption, for what cannot be one."""
    if not isinstance(path, str | os.PathLike) or not str(path) or "\0" in str(path) or not is_text(str(path)):
        fail(Kind.INVALID_OPTION, STAGE, f"{path!r} is no path of a file")
    return Path(path)


def _chosen_rules(rules: RuleChoice, level: Exactness) -> tuple[str, ...] | None:
    from rules import FAMILIES, select

    if rules is None:
        return None
    listed = tuple(rules) if isinstance(rules, list | tuple) else (rules,)
    if not all(isinstance(each, Rule) or (isinstance(each, str) and "@" not in each) for each in listed):
        what = "names of families, -names to leave out, and rules"
        fail(Kind.INVALID_OPTION, STAGE, f"rules= lists {what}, not {rules!r}", hint=", ".join(FAMILIES))
    named = tuple(each if isinstance(each, str) else _admitted(each, level) for each in listed)
    select(named)
    return named


def _admitted(rule: Rule, level: Exactness) -> str:
    """The reference of a caller's rule, once it is known to be sound and allowed."""
    from rules import RULES
    from rules.users import admit

    if any(rule.name == each.name for each in RULES):
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


def _checked_budget(budget: Budget | None) -> Budget:
    if budget is None:
        return Budget()
    if not isinstance(budget, Budget):
        hint = "eqsat.options.Budget(nodes=…, iterations=…)"
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
