"""Poly-View (seed 000 §5): the affine part of a region as blocks of access functions, contractions as patterns.

A block is one statement over a box of points; its accesses are index maps over that box, and say where memory and
values are read and written. Poly Core reads blocks, so that no price waits for isl; the dump, the printed form and
`codegen.where.contraction_check` take them as isl sets and maps, always simplified (`ir.poly_view_isl`).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ir.axis_map import AxisMap

BlockKind = Literal["contraction_pattern", "reduce", "stream", "scan", "ewise"]


class Access(msgspec.Struct, frozen=True):
    """`map` takes the block's point to what is read of `tensor`, its guards being the padding; or, where `mode` is
    "write", the index of the output `tensor` to the coordinates of the block's value that stands there."""

    tensor: str
    map: AxisMap
    mode: Literal["read", "write"]


class Pattern(msgspec.Struct, frozen=True):
    """What a contraction is.

    The `_idx` are axis names, operand by operand in the operand's order; an operand's coordinate that is a window
    over several axes is named by its output axis. `affine_offsets` gives those windows, by that axis:
    {"i2": "2*i2 + r1 - 1"}. `groups` counts the blocks of a grouped convolution. Along `batch_idx` both operands
    move, along `m_idx` the lhs only or neither, along `n_idx` the rhs only.
    """

    pattern: Literal["matmul", "conv"]
    lhs_idx: tuple[str, ...]
    rhs_idx: tuple[str, ...]
    out_idx: tuple[str, ...]
    reduce_idx: tuple[str, ...]
    affine_offsets: dict[str, str] = {}
    batch_idx: tuple[str, ...] = ()
    m_idx: tuple[str, ...] = ()
    n_idx: tuple[str, ...] = ()
    groups: int = 1

    @property
    def roles(self) -> tuple[tuple[str, ...], ...]:
        """Its output's axes: batch, m and n."""
        return self.batch_idx, self.m_idx, self.n_idx


class Block(msgspec.Struct, frozen=True):
    """One statement, over the box of `sizes`: the axes of its value, `i0, i1, …`, then those that it reduces,
    `r0, r1, …`. It writes each element of its value once; `accesses` are what else it touches."""

    name: str
    kind: BlockKind
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    accesses: tuple[Access, ...]
    attrs: Pattern | None = None

    @property
    def own_axes(self) -> tuple[str, ...]:
        """The axes of its value."""
        return tuple(axis for axis in self.axes if axis.startswith("i"))

    @property
    def reduced_axes(self) -> tuple[str, ...]:
        """The axes that its value does not have."""
        return self.axes[len(self.own_axes) :]

    @property
    def reads(self) -> tuple[Access, ...]:
        """In the order of the operands."""
        return tuple(each for each in self.accesses if each.mode == "read")


class Edge(msgspec.Struct, frozen=True):
    """`src` writes what `dst` reads."""

    src: str
    dst: str
    value: str


class PolyView(msgspec.Struct, frozen=True):
    """The blocks of one region in body order; `non_scop` names the values left out, because an index of theirs is
    data."""

    region: str
    blocks: tuple[Block, ...]
    non_scop: tuple[str, ...] = ()

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The flow between blocks."""
        names = {block.name for block in self.blocks}
        found = (
            Edge(read.tensor, block.name, read.tensor)
            for block in self.blocks
            for read in block.reads
            if read.tensor in names
        )
        return tuple(dict.fromkeys(found))

    def block(self, name: str) -> Block:
        """The block of this name, which must be one of the view's."""
        return next(block for block in self.blocks if block.name == name)

    def pattern(self, contraction: str) -> Pattern:
        """What the contraction of this name is."""
        found = self.block(contraction).attrs
        assert found is not None, f"{contraction} is no contraction"
        return found

    def to_dump(self) -> dict[str, Any]:
        """The fields of seed 000 §5.2's dump; a region with non-SCoP values names them."""
        view: dict[str, Any] = {
            "blocks": [_block(block) for block in self.blocks],
            "edges": [msgspec.to_builtins(edge) for edge in self.edges],
        }
        if self.non_scop:
            view["non_scop"] = list(self.non_scop)
        return {"poly_view": view}

    def __str__(self) -> str:
        from ir.poly_view_isl import access_texts, domain_text

        lines = [f"poly_view {self.region}"]
        for block in self.blocks:
            pattern = f" ({block.attrs.pattern})" if block.attrs else ""
            lines.append(f"  {block.name}: {block.kind}{pattern} over {domain_text(block)}")
            lines += [f"    {text}" for _, text in access_texts(block)]
        lines += [f"  {edge.src} -> {edge.dst}: {edge.value}" for edge in self.edges]
        lines += [f"  {name}: non-SCoP" for name in self.non_scop]
        return "\n".join(lines)


def _block(block: Block) -> dict[str, Any]:
    from ir.poly_view_isl import access_texts, domain_text

    found: dict[str, Any] = {
        "name": block.name,
        "kind": block.kind,
        "domain": {"set": domain_text(block)},
        "accesses": [{"tensor": tensor, "map": text} for tensor, text in access_texts(block)],
    }
    if block.attrs is not None:
        found["attrs"] = _pattern(block.attrs)
    return found


def _pattern(pattern: Pattern) -> dict[str, Any]:
    found: dict[str, Any] = {
        "pattern": pattern.pattern,
        "lhs_idx": list(pattern.lhs_idx),
        "rhs_idx": list(pattern.rhs_idx),
        "out_idx": list(pattern.out_idx),
        "reduce_idx": list(pattern.reduce_idx),
        "affine_offsets": dict(pattern.affine_offsets),
    }
    if pattern.groups > 1:
        found["groups"] = pattern.groups
    return found
