"""A node of an e-graph: a constructor over classes, with arguments named as in `ir.term.language`.

    node.buffer    the class of the buffer that a Load reads
    node.map       where the Load reads, as an AxisMap

In the e-graph and in a node, maps, sizes and types are texts. An attribute of a node is the parsed value: it is looked
up by the text, in the table of all maps (`ir.index.map`) or in a cache (`ir.term.text`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from ir.index.map import parse_map
from ir.term.language import CTORS, GIVEN, FieldName, Sort
from ir.term.text import parse_numbers, parse_sizes, parse_type

_T = TypeVar("_T")

_TABLE = {**CTORS, GIVEN.name: GIVEN}
"""The constructors of all nodes: those of e-graphs, and the leaf GIVEN of terms in explanations."""

_Pick = Callable[[Sequence[Any]], tuple[Any, ...]]
"""A function that picks some of a node's arguments."""


def _pick(places: Sequence[int]) -> _Pick:
    """A function that returns the arguments at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


def _pick_by_sort(is_wanted: Callable[[Sort], bool]) -> dict[str, _Pick]:
    """For each constructor, a function that returns its arguments of some sorts."""
    return {
        name: _pick([place for place, sort in enumerate(ctor.args) if is_wanted(sort)]) for name, ctor in _TABLE.items()
    }


def _exchange_children(sorts: Sequence[Sort]) -> _Pick:
    """A function that replaces a node's children; its input is the node's arguments followed by the new children."""
    behind = count(len(sorts))
    return _pick([next(behind) if sort.is_class else place for place, sort in enumerate(sorts)])


_CHILDREN = _pick_by_sort(lambda sort: sort.is_class)
_INLINE = _pick_by_sort(lambda sort: sort.is_inline)
_TEXTS = _pick_by_sort(lambda sort: not sort.is_class)
_OVER = {name: _exchange_children(ctor.args) for name, ctor in _TABLE.items()}
_READING = frozenset(name for name, ctor in CTORS.items() if "buffer" in ctor.places)


class _BareNode(NamedTuple):
    ctor: str
    args: tuple[int | str, ...]


class _Field(Generic[_T]):
    """An attribute of nodes: the argument of this name, in constructors where it has one of these sorts.

    read: converts the class, text or integer in the e-graph to the attribute's value.
    places: the argument's place by constructor.
    """

    def __init__(self, name: FieldName, read: Callable[[Any], _T], *sorts: Sort) -> None:
        wanted = {(name, sort) for sort in sorts}
        self.places = {ctor.name: ctor.place(name) for ctor in _TABLE.values() if wanted.intersection(ctor.fields)}
        if not self.places:
            raise TypeError(f"no constructor has a field {name} of sort {' or '.join(sort.value for sort in sorts)}")
        self._read = read

    def __set_name__(self, owner: type[_BareNode], attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, node: _BareNode, owner: type[_BareNode]) -> _T:
        try:
            place = self.places[node.ctor]
        except KeyError:
            fields = ((name, field.places) for name, field in vars(owner).items() if isinstance(field, _Field))
            known = ", ".join(name for name, places in fields if node.ctor in places)
            raise AttributeError(f"{node.ctor} has no {self._attribute}, but {known}") from None
        return self._read(node.args[place])


def _child(name: FieldName) -> _Field[int]:
    """The number of a class; the number of a term if the node is a term's root."""
    return _Field(name, int, Sort.BUF, Sort.PRO, Sort.ACC, Sort.EPI)


class ENode(_BareNode):
    """A constructor over classes (int), texts (str) and integers. Its fields in `ir.term.language` are attributes;
    a field that the constructor lacks is an AttributeError.

    number: the `value` of an Imm, which is a text and no class.
    """

    __slots__ = ()

    acc = _child("acc")
    buffer = _child("buffer")
    index = _child("index")  # type: ignore[assignment]  # tuple.index has no use here
    score = _child("score")
    value = _child("value")
    x = _child("x")
    y = _child("y")
    z = _child("z")

    axis = _Field("axis", int, Sort.I64)
    domain = _Field("domain", parse_sizes, Sort.STR)
    dtype = _Field("dtype", str, Sort.STR)
    map = _Field("map", parse_map, Sort.STR)
    name = _Field("name", str, Sort.STR)
    number = _Field("value", str, Sort.STR)
    numbers = _Field("numbers", parse_numbers, Sort.STR)
    op = _Field("op", str, Sort.STR)
    sizes = _Field("sizes", parse_sizes, Sort.STR)
    type = _Field("type", parse_type, Sort.STR)

    @property
    def children(self) -> tuple[int, ...]:
        """The classes among the arguments, in the order of the fields."""
        return _CHILDREN[self.ctor](self.args)

    @property
    def inline_children(self) -> tuple[int, ...]:
        """The children that are computed inside the kernel: all but buffers that are read."""
        return _INLINE[self.ctor](self.args)

    @property
    def texts(self) -> tuple[int | str, ...]:
        """The arguments that are no classes, in the order of the fields."""
        return _TEXTS[self.ctor](self.args)

    @property
    def source(self) -> int | None:
        """The buffer that a Load or a Gather reads; None for any other node."""
        return self.buffer if self.ctor in _READING else None

    @property
    def fields(self) -> dict[str, int | str]:
        """Arguments by field, as the e-graph holds them."""
        return _TABLE[self.ctor].by_field(self.args)

    def over(self, children: Iterable[int]) -> ENode:
        """The same node with other children."""
        return ENode(self.ctor, _OVER[self.ctor]((*self.args, *children)))


def renumber(ctor: str, args: Sequence[int | str], number: Mapping[int | str, int]) -> ENode:
    """A node with its children replaced by their numbers. Raises KeyError if a child has no number."""
    children = map(number.__getitem__, _CHILDREN[ctor](args))
    return ENode(ctor, _OVER[ctor]((*args, *children)))
