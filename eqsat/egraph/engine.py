"""The only file that calls egglog: it runs text, counts and reads rows, and calls Python for primitives.

An EGraph belongs to the thread that made it. After an error it is unusable; after an `Interruption` it is not.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
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
"""A row of a table: its arguments and its value; classes are numbers."""

CALL = f"__import__('importlib').import_module({__name__!r}).call_primitives"
_TEXT, _INTEGER = "String", "i64"
_CALLS = 1 << 20
"""Results that the caches of calls and of each primitive keep."""


class Interruption(Exception):  # noqa: N818 - no error: a limit is reached
    """Raised inside a `watch_calls` block to end a run in the middle of an iteration, when a limit is reached.

    The e-graph stays consistent and keeps all nodes built so far. The rest of the iteration is lost."""


class _Watching(threading.local):
    """The check to call with every primitive; one per thread, because engines belong to threads."""

    check: Callable[[], None] | None = None


_watching = _Watching()


@contextmanager
def watch_calls(check: Callable[[], None]) -> Iterator[None]:
    """Calls `check` with every primitive inside the block; `check` may raise `Interruption`."""
    before, _watching.check = _watching.check, check
    try:
        yield
    finally:
        _watching.check = before


@cache
def _bindings() -> Any:
    """The module `egglog.bindings` without its package, which takes fifteen times as long to import: it loads a
    formatter and types for a language of its own. The module is not left among the imported ones: who imports egglog
    gets this same module, and Python sets it as the attribute of its package."""
    name = "egglog.bindings"
    if name in sys.modules:
        return sys.modules[name]
    package = importlib.util.find_spec("egglog")
    folders = (package and package.submodule_search_locations) or []
    spec = importlib.machinery.PathFinder.find_spec(name, folders)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)
    return module


class EGraph:
    """An e-graph with the declarations of `lines`, egglog text with one command a line.

    Every command is parsed alone, because the time to parse grows more than linearly with the length of the text.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._egraph = _bindings().EGraph()
        self.execute(lines)

    def execute(self, lines: Iterable[str]) -> None:
        """Run commands, one a line.

        Raises:
            EqsatError: the error of a primitive; UnsoundRule for anything that egglog refuses.
        """
        for line in lines:
            self._run(line)

    def run(self, schedule: str) -> tuple[Mapping[str, int], bool]:
        """Run a schedule. Returns the matches by rule, and whether anything changed."""
        (output,) = self._run(f"(run-schedule {schedule})")
        report = cast("bindings.RunScheduleOutput", output).report
        return report.num_matches_per_rule, report.updated

    def sizes(self) -> Mapping[str, int]:
        """Rows per table."""
        (output,) = self._run("(print-size)")
        return dict(cast("bindings.PrintAllFunctionsSize", output).sizes)

    def filled_tables(self) -> frozenset[str]:
        """The tables that have rows."""
        return frozenset(name for name, rows in self.sizes().items() if rows)

    def classes(self, tables: Iterable[str]) -> int:
        """The number of distinct classes among the values of these tables."""
        functions = self._translate_errors("freeze", self._egraph.freeze).functions
        return len({row.output for name in tables for row in functions[name].rows})

    def rows(self, wanted: Container[str]) -> Mapping[str, list[Row]]:
        """Every row of these tables, in egglog's order. Texts and integers are values; all else is a class number."""
        frozen = self._translate_errors("freeze", self._egraph.freeze)
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
        outputs: list[bindings._CommandOutput] = self._translate_errors(
            line, lambda: egraph.run_program(*egraph.parse_program(line))
        )
        return outputs

    def _translate_errors(self, what: str, action: Callable[[], Any]) -> Any:
        """Runs an action. An error or a panic of egglog (a panic is no Exception) becomes an EqsatError; an error of a
        Python function that egglog calls passes unchanged."""
        try:
            return action()
        except BaseException as error:
            if not (isinstance(error, _bindings().EggSmolError) or is_panic(error)):
                raise
            fail(
                Kind.UNSOUND_RULE,
                "egraph",
                f"the e-graph engine stopped: {error}",
                hint="a rule or an analysis contradicts what the e-graph holds",
                command=what[:400],
            )


class _Texts(dict[Any, str]):
    """The text of each string value of an e-graph, read once."""

    def __init__(self, egraph: bindings.EGraph) -> None:
        super().__init__()
        self._egraph = egraph

    def __missing__(self, value: bindings.Value) -> str:
        text = self[value] = self._egraph.value_to_string(value)
        return text


def call_primitives(call: str) -> str:
    """The function that egglog calls. `call` holds steps and arguments in one text. Returns the result of the last
    step, or "" if a step returns "".

    A step is `module:name` of a primitive and its operands: `2` is an argument, `s2` the result of a step.
    """
    if _watching.check is not None:
        _watching.check()
    return _answer(call)


@lru_cache(maxsize=_CALLS)
def _answer(call: str) -> str:
    steps, *given = call.split(SEPARATOR)
    answers: list[str] = []
    for primitive, operands in _parse_steps(steps):
        answer = primitive(*[answers[place] if computed else given[place] for computed, place in operands])
        if not answer:
            return ""
        answers.append(answer)
    return answers[-1]


@cache
def _parse_steps(steps: str) -> list[tuple[Callable[..., str], list[tuple[bool, int]]]]:
    primitives = []
    for step in steps.split(";"):
        path, *operands = step.split()
        primitives.append(
            (_import_primitive(path), [(operand[0] == "s", int(operand.lstrip("s"))) for operand in operands])
        )
    return primitives


@cache
def _import_primitive(path: str) -> Callable[..., str]:
    """The primitive at this path, with a cache of its results; its errors are EqsatErrors."""
    module, _, name = path.partition(":")
    function = getattr(importlib.import_module(module), name)
    primitive = function if isinstance(function, Primitive) else Primitive(function)
    return lru_cache(maxsize=_CALLS)(primitive.answer)
