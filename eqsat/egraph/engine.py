"""The one place that talks to egglog: run text, count, read all rows, call Python.

An EGraph belongs to the thread that made it. After an error it is dead: make another; `Interruption` leaves it alive.
"""

from __future__ import annotations

import importlib
import threading
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from eqsat.egraph.query_text import SEPARATOR
from eqsat.failure.internal_error import is_panic
from ir.diagnostics import Kind, fail
from ir.term.language import Primitive

if TYPE_CHECKING:
    from egglog import bindings

Row = tuple[tuple[int | str, ...], int | str]
"""The arguments of a table's row and its value; classes are numbers."""

CALL = f"__import__('importlib').import_module({__name__!r}).call_primitives"
_TEXT, _INTEGER = "String", "i64"
_CALLS = 1 << 20


class Interruption(Exception):  # noqa: N818 - no error: a limit is reached
    """Raised inside a block that is `watched`: it ends a run in the middle of an iteration. What the engine had found
    by then holds, and its classes are whole; the rest of the iteration is lost."""


class _Watching(threading.local):
    """What is asked at every call of a primitive, thread by thread: engines belong to theirs."""

    check: Callable[[], None] | None = None


_watching = _Watching()


@contextmanager
def watched(check: Callable[[], None]) -> Iterator[None]:
    """Have `check` called at every call of a primitive inside the block; it may raise `Interruption`."""
    before, _watching.check = _watching.check, check
    try:
        yield
    finally:
        _watching.check = before


class EGraph:
    """An e-graph that holds what `lines` of egglog text declare; one command a line.

    Parsing costs more than linearly in the length of its text, so every command is parsed on its own.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        from egglog import bindings

        self._egraph = bindings.EGraph()
        self.execute(lines)

    def execute(self, lines: Iterable[str]) -> None:
        """Run commands, one a line.

        Raises:
            EqsatError: what a primitive raised; UnsoundRule for anything that egglog refuses.
        """
        for line in lines:
            self._run(line)

    def run(self, schedule: str) -> tuple[Mapping[str, int], bool]:
        """Run a schedule: matches per named rule, and whether anything changed."""
        (output,) = self._run(f"(run-schedule {schedule})")
        report = cast("bindings.RunScheduleOutput", output).report
        return report.num_matches_per_rule, report.updated

    def sizes(self) -> Mapping[str, int]:
        """Rows per table."""
        (output,) = self._run("(print-size)")
        return dict(cast("bindings.PrintAllFunctionsSize", output).sizes)

    def filled(self) -> frozenset[str]:
        """The tables that have rows."""
        return frozenset(name for name, rows in self.sizes().items() if rows)

    def classes(self, tables: Iterable[str]) -> int:
        """How many classes these tables' rows have for values."""
        found = self._guarded("freeze", self._egraph.freeze).functions
        return len({row.output for name in tables for row in found[name].rows})

    def rows(self, wanted: Container[str]) -> Mapping[str, list[Row]]:
        """Every row of these tables, in egglog's order; values of other than texts and integers are classes."""
        frozen = self._guarded("freeze", self._egraph.freeze)
        texts, classes = _Texts(self._egraph), defaultdict[Any, int](count().__next__)
        class_of = classes.__getitem__
        readers: dict[str, Callable[[Any], int | str]] = {
            _TEXT: texts.__getitem__,
            _INTEGER: self._egraph.value_to_i64,
        }
        tables: dict[str, list[Row]] = {}
        for name, table in frozen.functions.items():
            if table.is_let_binding or name not in wanted:
                continue
            inputs = [readers.get(sort, class_of) for sort in table.input_sorts]
            columns = zip(*[row.inputs for row in table.rows], strict=True)
            values = map(readers.get(table.output_sort, class_of), [row.output for row in table.rows])
            tables[name] = list(zip(zip(*map(map, inputs, columns), strict=True), values, strict=True))
        return tables

    def _run(self, line: str) -> list[bindings._CommandOutput]:
        egraph = self._egraph
        outputs: list[bindings._CommandOutput] = self._guarded(
            line, lambda: egraph.run_program(*egraph.parse_program(line))
        )
        return outputs

    def _guarded(self, what: str, action: Callable[[], Any]) -> Any:
        """What egglog raises itself becomes an EqsatError, its panics too, which are no Exceptions; what is raised by
        the functions that egglog calls passes as it is."""
        from egglog import bindings

        try:
            return action()
        except BaseException as error:
            if not (isinstance(error, bindings.EggSmolError) or is_panic(error)):
                raise
            fail(
                Kind.UNSOUND_RULE,
                "egraph",
                f"the e-graph engine stopped: {error}",
                hint="a rule or an analysis contradicts what the e-graph holds",
                command=what[:400],
            )


class _Texts(dict[Any, str]):
    """The text that each value of an e-graph is."""

    def __init__(self, egraph: bindings.EGraph) -> None:
        super().__init__()
        self._egraph = egraph

    def __missing__(self, value: bindings.Value) -> str:
        text = self[value] = self._egraph.value_to_string(value)
        return text


def call_primitives(call: str) -> str:
    """What egglog calls: steps and what they are given, in one text; the last answer, or "" where any is that.

    A step is `module:name` of a primitive and the places of its operands: `2` is given, `s2` is the answer of a step.
    """
    if _watching.check is not None:
        _watching.check()
    return _answer(call)


@lru_cache(maxsize=_CALLS)
def _answer(call: str) -> str:
    steps, *given = call.split(SEPARATOR)
    answers: list[str] = []
    for primitive, operands in _parsed(steps):
        answer = primitive(*[answers[place] if computed else given[place] for computed, place in operands])
        if not answer:
            return ""
        answers.append(answer)
    return answers[-1]


@cache
def _parsed(steps: str) -> list[tuple[Callable[..., str], list[tuple[bool, int]]]]:
    parsed = []
    for step in steps.split(";"):
        path, *operands = step.split()
        parsed.append((_imported(path), [(each[0] == "s", int(each.lstrip("s"))) for each in operands]))
    return parsed


@cache
def _imported(path: str) -> Callable[..., str]:
    """A primitive that remembers its answers; where it fails, that is an EqsatError."""
    module, _, name = path.partition(":")
    found = getattr(importlib.import_module(module), name)
    primitive = found if isinstance(found, Primitive) else Primitive(found)
    return lru_cache(maxsize=_CALLS)(primitive.answer)
