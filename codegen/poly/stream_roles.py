"""The loops of streams of one score, and whether a kernel can compute the streams by tiles of scores.

s[b, i, k] = f(Σ_d Q[b, i, d]·K[b, k, d], …)          a contraction is finished inside the streams
A[b, i, j] = Σ_k e^(s[b, i, k] - m)·V[b, k, j]        a product of the weights and a matrix
L[b, i] = Σ_k e^(s[b, i, k] - m)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from codegen.poly.contraction_roles import groups_of
from ir.index.facts import picked_axes
from ir.index.map import AxisMap, axis_map, compose, lift, support
from ir.poly.core import Site, StreamRoles
from ir.region.region import Definition, Op, Operand

Accumulators = Sequence[tuple[Definition, list[Site]]]
"""The accumulators of a region that are used, with their sites."""


def score_read(op: Op, site: Site) -> tuple[str, AxisMap] | None:
    """The value whose running maximum an accumulator at `site` needs, and the map by which its terms read the value,
    over the axes of the scope and then the reduced axes. The value is the score of a stream or the operand of a
    maximum; None for other accumulators."""
    if op.kind != "stream" and (op.kind, op.fn) != ("reduce", "max"):
        return None
    score = op.inputs[0]
    if not isinstance(score, Operand):
        return None
    return score.value, compose(score.map, _terms_at(op, site))


def holds_contraction(accumulators: Accumulators) -> bool:
    """Whether there is a stream and a contraction."""
    return {"stream", "contraction"} <= {let.op.kind for let, _ in accumulators}


def stream_roles(accumulators: Accumulators, outer: str) -> StreamRoles | str:
    """The loops of the streams among these accumulators, in the scope `outer`; or why there can be no tiles."""
    members = [(let, sites) for let, sites in accumulators if let.op.kind != "contraction"]
    contractions = [(let, sites) for let, sites in accumulators if let.op.kind == "contraction"]
    streams = [(let, sites[0]) for let, sites in members if let.op.kind == "stream"]
    if not streams:
        return "it holds no stream"
    lead, at = streams[0]
    read = score_read(lead.op, at)
    for let, sites in members:
        if len(sites) != 1 or sites[0].scope != outer or picked_axes(sites[0].map, let.op.shape) is None:
            return f"`{let.name}` is not finished at axes of the outputs"
        if score_read(let.op, sites[0]) != read:
            return f"`{let.name}` and the stream `{lead.name}` are not of one score"
        if let.op.kind == "stream" and let.op.fn != lead.op.fn:
            return f"the streams `{lead.name}` and `{let.name}` have different functions"
    if read is None or len(contractions) > 1:
        return f"the score of `{lead.name}` holds {len(contractions)} contractions"
    score, view = read
    if 0 in view.sizes:
        return f"the stream `{lead.name}` is empty"
    rank = len(at.map.sizes)
    moving = [axis for axis, size in enumerate(view.sizes) if size != 1]
    own = [axis for axis in moving if axis < rank]
    scored, terms = support(view), tuple(axis for axis in moving if axis >= rank)
    columns = tuple(axis for axis in own if axis not in scored)
    beside: set[int] = set()
    product = False
    for let, site in streams:
        value = _value_support(let.op, site)
        if value.isdisjoint(columns):
            continue
        if not value >= set(columns):
            return f"the value of `{let.name}` does not move along all columns"
        beside |= value
        product = True
    roles = StreamRoles(
        score=score,
        read=view,
        members=tuple(let.name for let, _ in members),
        batch=(),
        rows=(),
        columns=columns,
        terms=terms,
        sizes=view.sizes,
    )
    if contractions:
        inner = _nest_contraction(roles, members, *contractions[0])
        if isinstance(inner, str):
            return inner
        roles, keyed = inner
        beside |= keyed
    elif not columns:
        return f"the streams of `{score}` are no products"
    if columns and not product:
        return f"no stream of `{score}` moves along all axes of the outputs"
    batch, rows, _ = groups_of((axis for axis in own if axis in scored), scored, beside)
    return msgspec.structs.replace(roles, batch=batch, rows=rows)


def _nest_contraction(
    roles: StreamRoles, members: Accumulators, let: Definition, sites: Sequence[Site]
) -> tuple[StreamRoles, frozenset[int]] | str:
    """The roles with the contraction `let`, and the loops that move its keys."""
    if 0 in let.op.domain:
        return f"the contraction `{let.name}` is empty"
    scopes = {member.name: _terms_at(member.op, own[0]) for member, own in members}
    if roles.terms and any(site.scope not in scopes for site in sites):
        return f"`{let.name}` is read outside of the streams"
    places = {
        compose(site.map, scopes[site.scope])
        if site.scope in scopes  # else the streams have one term, and the contraction is finished before them
        else axis_map(roles.sizes, site.map.exprs, site.map.guards)
        for site in sites
    }
    if len(places) != 1:
        return f"`{let.name}` is read at {len(places)} different maps of the scores"
    (place,) = places
    if picked_axes(place, let.op.shape) is None:
        return f"`{let.name}` is read at {place}: its points would be padded or computed repeatedly"
    scored = {axis for axis in support(roles.read) if roles.sizes[axis] != 1}
    if support(place) != scored:
        return f"`{let.name}` would be repeated over axes of the score that it does not have"
    at = lift(place, let.op.domain[len(let.op.shape) :])
    sides = [
        support(compose(operand.map, at)) if isinstance(operand, Operand) else frozenset() for operand in let.op.inputs
    ]
    moved = [side.intersection(roles.terms) for side in sides]
    keys = max((1, 0), key=lambda side: (len(moved[side]), -len(sides[side])))
    if moved[1 - keys] or not moved[keys] >= set(roles.terms):
        return f"both operands of `{let.name}`, or none, move along the terms"
    if not all(isinstance(operand, Operand) for operand in let.op.inputs):
        return f"`{let.name}` multiplies a number"
    return msgspec.structs.replace(roles, contraction=let.name, place=place, keys=keys), frozenset(sides[keys])


def _terms_at(op: Op, site: Site) -> AxisMap:
    """The scope's point and the reduced axes → the accumulator's domain."""
    return lift(site.map, op.domain[len(op.shape) :])


def _value_support(op: Op, site: Site) -> frozenset[int]:
    """The loops that move a stream's value."""
    value = op.inputs[1]
    return support(compose(value.map, _terms_at(op, site))) if isinstance(value, Operand) else frozenset()
