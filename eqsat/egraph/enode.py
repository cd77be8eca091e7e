"""A node of an e-graph: a constructor over classes, whose arguments have the names that `ir.term` gives them.

    node.buffer    the class of the buffer that a Load reads
    node.map       where the Load reads, as an AxisMap

Maps, sizes and types stand in the e-graph as texts; readers of a node see what was parsed from them, once per text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from ir.axis_map import parse_map
from ir.term import CTORS, GIVEN, FieldName, Sort
from ir.term_text import parse_sizes, parse_type

_T = TypeVar("_T")

_TABLE = {**CTORS, GIVEN.name: GIVEN}
"""The constructors of all nodes: those of e-graphs, and the leaves of terms in explanations."""


def _places(is_wanted: Callable[[Sort], bool]) -> dict[str, tuple[int, ...]]:
    """Constructor → the places of its arguments of some sorts."""
    return {
        name: tuple(place for place, sort in enumerate(ctor.args) if is_wanted(sort)) for name, ctor in _TABLE.items()
    }


_CHILDREN = _places(lambda sort: sort.is_class)
_INLINE = _places(lambda sort: sort.is_inline)
_TEXTS = _places(lambda sort: not sort.is_class)
_READING = frozenset(name for name, ctor in CTORS.items() if "buffer" in ctor.places)


class _Node(NamedTuple):
    ctor: str
    args: tuple[int | str, ...]


class _Field(Generic[_T]):
    """An attribute of nodes: the argument of this name, in the constructors that have it with one of these sorts.

    read: from the class, text or integer in the e-graph to the attribute's value.
    places: constructor → the argument's place.
    """

    def __init__(self, name: FieldName, read: Callable[[Any], _T], *sorts: Sort) -> None:
        wanted = {(name, sort) for sort in sorts}
        self.places = {ctor.name: ctor.place(name) for ctor in _TABLE.values() if wanted.intersection(ctor.fields)}
        if not self.places:
            raise TypeError(f"no constructor has a field {name} of sort {' or '.join(sort.value for sort in sorts)}")
        self._read = read

    def __set_name__(self, owner: type[_Node], attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, node: _Node, owner: type[_Node]) -> _T:
        try:
            place = self.places[node.ctor]
        except KeyError:
            fields = ((name, each.places) for name, each in vars(owner).items() if isinstance(each, _Field))
            known = ", ".join(name for name, places in fields if node.ctor in places)
            raise AttributeError(f"{node.ctor} has no {self._attribute}, but {known}") from None
        return self._read(node.args[place])


def _child(name: FieldName) -> _Field[int]:
    """The number of a class, or of a term where a node is a term's root."""
    return _Field(name, int, Sort.BUF, Sort.PRO, Sort.ACC, Sort.EPI)


class ENode(_Node):
    """A constructor over classes (int), texts (str) and integers, which are attributes by the names of its fields in
    `ir.term`. To ask for a field that the constructor lacks is an AttributeError.

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
    op = _Field("op", str, Sort.STR)
    sizes = _Field("sizes", parse_sizes, Sort.STR)
    type = _Field("type", parse_type, Sort.STR)

    @property
    def children(self) -> tuple[int, ...]:
        """The classes that it is over, in the order of its fields."""
        args: tuple[Any, ...] = self.args
        return tuple([args[place] for place in _CHILDREN[self.ctor]])

    @property
    def inline_children(self) -> tuple[int, ...]:
        """The children that are decided inside the kernel: all but a buffer that is read."""
        args: tuple[Any, ...] = self.args
        return tuple([args[place] for place in _INLINE[self.ctor]])

    @property
    def texts(self) -> tuple[int | str, ...]:
        """The arguments that are no classes, in the order of its fields."""
        return tuple([self.args[place] for place in _TEXTS[self.ctor]])

    @property
    def source(self) -> int | None:
        """The buffer that a Load or a Gather reads; None of any other node."""
        return self.buffer if self.ctor in _READING else None

    @property
    def fields(self) -> dict[str, int | str]:
        """Field → argument, as the e-graph holds it."""
        return _TABLE[self.ctor].named(self.args)

    def over(self, children: Iterable[int]) -> ENode:
        """The same node over other children."""
        args = list(self.args)
        for place, child in zip(_CHILDREN[self.ctor], children, strict=True):
            args[place] = child
        return ENode(self.ctor, tuple(args))
