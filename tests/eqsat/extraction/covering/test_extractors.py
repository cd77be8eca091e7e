"""The covering problem alone: every extractor gives a cover that runs, and the exact one the least."""

from __future__ import annotations

import random
from functools import partial
from itertools import product

import networkx
import pytest

from eqsat.extraction.covering.agreement import resolve_disputes
from eqsat.extraction.covering.extractors import EXTRACTORS
from eqsat.extraction.covering.oracles.binary_program import SolverLimits, least_cover
from eqsat.extraction.covering.oracles.exact import exact, lower_bound
from eqsat.extraction.covering.oracles.shuffled import shuffle
from eqsat.extraction.covering.oracles.tree import tree
from eqsat.extraction.covering.oracles.windowed import windowed
from eqsat.extraction.covering.pareto import pareto
from eqsat.extraction.covering.parts import knots_of, landmarks, parts
from eqsat.extraction.covering.problem import ALONE, Column, Covering, Extractor, Problem, resolve
from eqsat.extraction.covering.swaps import Swaps, refine
from tests.support.sampling import first_few

ALL = [entry.cover for entry in EXTRACTORS.values()]
LAST = 5
"""Buffers of the problems that are small enough to try everything."""


def cost(problem: Problem, covering: Covering | None) -> float:
    """Infinite where there is no cover."""
    return float("inf") if covering is None else problem.cost_of(covering.columns)


def agrees(problem: Problem, columns: tuple[int, ...]) -> bool:
    marks = [mark for index in columns for mark in problem.columns[index].marks]
    alone = [value for value, way in marks if way == ALONE]
    ways = dict(marks)
    return all(ways[value] == way for value, way in marks) and len({*alone}) == len(alone)


def brute_force(problem: Problem) -> float:
    """The least cost over every choice of one writer per buffer, or none."""
    best = float("inf")
    for picked in product(*[(None, *indices) for indices in problem.writers.values()]):
        result = resolve(problem, [index for index in picked if index is not None])
        if result is not None and agrees(problem, result):
            best = min(best, problem.cost_of(result))
    return best


def random_problem(rng: random.Random, buffers: int = LAST, marked: bool = False) -> Problem:
    """Any buffer may be computed from any other; now and then at no cost, or not at all."""
    columns = []
    for buffer in range(buffers):
        for _ in range(rng.randint(1, 3)):
            others = rng.sample(range(buffers), rng.randint(0, min(2, buffers - 1)))
            marks = ((rng.randrange(2), rng.choice((ALONE, 0, 1))),) if marked and rng.random() < 0.4 else ()
            price = rng.choice((0.0, 1.0, rng.uniform(1, 9), rng.uniform(1, 9)))
            columns.append(Column(buffer, tuple(other for other in others if other != buffer), price, marks))
    return Problem(tuple(columns), (0, 1))


def layered(rng: random.Random, layers: int = 12, width: int = 3) -> Problem:
    """A deep problem: each buffer is computed from the layer below, or that is computed again."""
    columns = []
    for layer in range(layers):
        for place in range(width):
            below = [(layer - 1) * width + k for k in range(width)] if layer else []
            for _ in range(3):
                reads = tuple(sorted(rng.sample(below, rng.randint(1, len(below))))) if below else ()
                columns.append(Column(layer * width + place, reads, rng.uniform(1, 9)))
            if layer > 1:
                deep = tuple(read - width for read in below)
                columns.append(Column(layer * width + place, deep, rng.uniform(4, 20)))
    return Problem(tuple(columns), tuple((layers - 1) * width + k for k in range(width)))


def check_runs(problem: Problem, covering: Covering) -> None:
    done: set[int] = set()
    for index in covering.columns:
        column = problem.columns[index]
        assert set(column.reads) <= done
        assert column.writes not in done
        done.add(column.writes)
    assert set(problem.roots) <= done


@pytest.mark.parametrize("seed", range(60))
def test_every_extractor_gives_an_order_that_runs(seed: int) -> None:
    problem = random_problem(random.Random(seed), buffers=7)
    extractors: tuple[Extractor, ...] = (*ALL, lambda problem: shuffle(problem, random.Random(seed)))
    for extractor in extractors:
        chosen = extractor(problem)
        assert (chosen is None) == (tree(problem) is None)
        if chosen is not None:
            check_runs(problem, chosen)
            assert not chosen.stopped


@first_few(60, "seed", range(150))
def test_the_exact_cover_is_the_least_there_is(seed: int) -> None:
    problem = random_problem(random.Random(seed))
    best = brute_force(problem)
    for extractor in (exact, windowed, lambda problem: pareto(problem, sets=64)):
        assert cost(problem, extractor(problem)) == pytest.approx(best)
    result = exact(problem)
    if result is not None:
        assert result.bound == pytest.approx(best)
    assert lower_bound(problem) <= best * (1 + 1e-9) + 1e-9 or best == float("inf")


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.exhaustive) if seed % 5 > 1 else seed for seed in range(150)]
)
def test_the_exact_cover_computes_each_value_in_one_way(seed: int) -> None:
    problem = random_problem(random.Random(seed), marked=True)
    best = brute_force(problem)
    result = exact(problem)
    if best < float("inf"):
        assert result is not None
        assert agrees(problem, result.columns)
        assert cost(problem, result) == pytest.approx(best)
        assert cost(problem, resolve_disputes(problem, pareto)) >= best * (1 - 1e-9)
        assert lower_bound(problem) <= best * (1 + 1e-9)
    assert (result is None) == (tree(problem) is None), "where values cannot agree, there is a cover all the same"


@first_few(2, "seed", range(12))
def test_the_better_the_dearer(seed: int) -> None:
    problem = layered(random.Random(seed))
    results = {name: extractor(problem) for name, extractor in zip(EXTRACTORS, ALL, strict=True)}
    costs = {name: cost(problem, cover) for name, cover in results.items()}
    for cover in results.values():
        assert cover is not None
        check_runs(problem, cover)
    slack = 1 + 1e-9
    assert lower_bound(problem) <= costs["exact"] * slack
    assert costs["exact"] <= costs["windowed"] * slack
    assert costs["windowed"] <= costs["pareto"] * slack
    assert costs["pareto"] <= costs["tree"] * slack
    assert cost(problem, windowed(problem, window=4)) <= costs["pareto"] * slack


@pytest.mark.slow
def test_an_extractor_gives_the_same_twice() -> None:
    problem = layered(random.Random(3), layers=12)
    for extractor in ALL:
        assert extractor(problem) == extractor(Problem(problem.columns, problem.roots))


def test_a_shared_kernel_is_paid_once() -> None:
    columns = (
        Column(0, (2,), 1.0),
        Column(1, (2,), 1.0),
        Column(0, (), 3.0),
        Column(1, (), 3.0),
        Column(2, (), 3.5),
    )
    problem = Problem(columns, (0, 1))
    for extractor in (pareto, exact, windowed):
        assert sorted(_columns(extractor, problem)) == [0, 1, 4]
    assert sorted(_columns(tree, problem)) == [2, 3]


def test_a_cycle_of_bargains_is_cut() -> None:
    """Each buffer is nearly free from the next, round in a ring: one must be computed from nothing."""
    size = 9
    ring = tuple(Column(number, ((number + 1) % size,), 0.1) for number in range(size))
    ground = tuple(Column(number, (), 10.0 + number) for number in range(size))
    problem = Problem((*ring, *ground), tuple(range(size)))
    result = least_cover(problem, SolverLimits())
    assert result is not None
    check_runs(problem, result)
    assert problem.cost_of(result.columns) == pytest.approx(0.1 * (size - 1) + 10.0)
    assert result.bound == pytest.approx(problem.cost_of(result.columns))


def test_without_a_root_there_is_no_cover() -> None:
    for problem in (Problem((), (0,)), Problem((Column(0, (1,), 1.0), Column(1, (0,), 1.0)), (0,))):
        assert [extractor(problem) for extractor in ALL] == [None] * len(ALL)
        assert lower_bound(problem) == float("inf")


def test_nothing_to_compute() -> None:
    problem = Problem((Column(0, (), 1.0),), ())
    for extractor in ALL:
        assert extractor(problem) == Covering(())
    assert lower_bound(problem) == 0.0


@pytest.mark.slow
def test_a_stop_at_a_limit_is_told_and_loses_nothing() -> None:
    problem = layered(random.Random(1), layers=12, width=4)
    early = exact(problem, SolverLimits(nodes=20_000, seconds=0.0))
    assert early is not None
    assert early.stopped
    assert early.bound <= cost(problem, exact(problem)) <= cost(problem, early) <= cost(problem, pareto(problem))


def test_a_stop_in_a_window_is_told() -> None:
    problem = layered(random.Random(1))
    result = windowed(problem, limits=SolverLimits(seconds=0.0))
    assert result is not None
    assert result.stopped
    assert cost(problem, result) == pytest.approx(cost(problem, pareto(problem)))


# --- taking a problem apart ---------------------------------------------------------------------------


def test_landmarks_are_what_every_cover_writes() -> None:
    for seed in range(80):
        problem = random_problem(random.Random(seed))
        if tree(problem) is None:
            continue
        common = set(range(LAST))
        for picked in product(*[(None, *indices) for indices in problem.writers.values()]):
            result = resolve(problem, [index for index in picked if index is not None])
            if result is not None:
                common &= {problem.columns[index].writes for index in result}
        assert landmarks(problem) == common, seed


@pytest.mark.parametrize("seed", range(40))
def test_knots_are_strongly_connected_components(seed: int) -> None:
    problem = random_problem(random.Random(seed), buffers=9)
    edges = [(column.writes, read) for column in problem.columns for read in column.reads]
    graph = networkx.DiGraph(edges).subgraph(problem.order)
    components = {node: min(knot) for knot in networkx.strongly_connected_components(graph) for node in knot}
    assert {buffer: components.get(buffer, buffer) for buffer in problem.order} == knots_of(problem)


@pytest.mark.parametrize("seed", range(40))
def test_what_can_be_computed_has_a_cheapest_writer(seed: int) -> None:
    problem = random_problem(random.Random(seed), buffers=9)
    some = problem.restrict(index for index, column in enumerate(problem.columns) if column.reads or column.writes % 4)
    assert problem.computable == problem.cheapest_writers.keys()
    assert some.computable == some.cheapest_writers.keys()


def test_a_chain_falls_apart_at_what_every_cover_writes() -> None:
    """Two alternatives per link, each over the last link's buffer: links are alike, and so are their parts."""
    columns, links = [], 6
    for link in range(links):
        below = (2 * link - 1,) if link else ()
        columns += [Column(2 * link, below, 2.0), Column(2 * link + 1, (2 * link,), 1.0)]
        columns += [Column(2 * link + 1, below, 4.0)]
    result = parts(Problem(tuple(columns), (2 * links - 1,)))
    assert result is not None
    assert len(result) == links
    assert len({part.problem for part in result}) == 1


def test_the_dearer_way_is_given_up() -> None:
    """Two roots, each cheaper with another way of value 7: together they take the cheaper of the two."""
    columns = (
        Column(0, (), 1.0, ((7, 1),)),
        Column(0, (), 2.0, ((7, 0),)),
        Column(1, (), 5.0, ((7, 1),)),
        Column(1, (), 3.0, ((7, 0),)),
    )
    problem = Problem(columns, (0, 1))
    assert sorted(_columns(pareto, problem)) == [0, 3]
    assert sorted(_columns(exact, problem)) == [1, 3]
    assert sorted(_columns(lambda problem: resolve_disputes(problem, pareto), problem)) == [1, 3]


def test_who_computes_a_value_alone_does_so_for_all() -> None:
    """Value 7 is computed in any of two kernels, or by that of buffer 2, which both can read."""
    columns = (
        Column(0, (), 1.0, ((7, ALONE),)),
        Column(1, (), 1.0, ((7, ALONE),)),
        Column(2, (), 3.0, ((7, ALONE),)),
        Column(0, (2,), 1.0),
        Column(1, (2,), 1.0),
    )
    problem = Problem(columns, (0, 1))
    assert sorted(_columns(pareto, problem)) == [0, 1]
    assert sorted(_columns(exact, problem)) == [2, 3, 4]
    assert sorted(_columns(lambda problem: resolve_disputes(problem, pareto), problem)) == [2, 3, 4]


def test_where_there_is_no_choice_of_ways_the_cover_stands() -> None:
    columns = (Column(0, (), 1.0, ((7, 1),)), Column(1, (), 3.0, ((7, 0),)))
    for extractor in (pareto, exact):
        assert sorted(_columns(partial(resolve_disputes, extractor=extractor), Problem(columns, (0, 1)))) == [0, 1]
        assert resolve_disputes(Problem(columns, (0, 2)), extractor) is None
    result = exact(Problem(columns, (0, 1)))
    assert result is not None
    assert not result.stopped
    assert lower_bound(Problem(columns, (0, 1))) == 4.0


def _columns(extractor: Extractor, problem: Problem) -> tuple[int, ...]:
    result = extractor(problem)
    assert result is not None
    return result.columns


@pytest.mark.parametrize("seed", range(30))
def test_no_swap_betters_a_refined_cover(seed: int) -> None:
    problem = random_problem(random.Random(seed))
    start = shuffle(problem, random.Random(seed))
    if start is None:
        return
    result = refine(problem, start.columns)
    assert problem.cost_of(result) <= problem.cost_of(start.columns)
    assert resolve(problem, result) is not None
    swaps = Swaps(problem, result)
    rivals = [index for index, column in enumerate(problem.columns) if swaps.writer.get(column.writes, index) != index]
    extra = [swap.extra_ns for index in rivals if (swap := swaps.with_column(index)) is not None]
    assert min(extra, default=0.0) >= -1e-6


def test_a_refined_cover_computes_each_value_in_one_way() -> None:
    """From covers that do; most of them become cheaper."""
    cheaper = started = 0
    for seed in range(150):
        problem = random_problem(random.Random(seed), buffers=9, marked=True)
        first = resolve_disputes(problem, partial(shuffle, rng=random.Random(seed)))
        if first is not None and agrees(problem, first.columns):
            refined = refine(problem, first.columns)
            check_runs(problem, Covering(refined))
            assert agrees(problem, refined)
            assert problem.cost_of(refined) <= problem.cost_of(first.columns)
            started += 1
            cheaper += problem.cost_of(refined) < problem.cost_of(first.columns)
    assert cheaper > started / 2 > 20


@pytest.mark.parametrize("extractor", [pareto, exact])
def test_a_way_that_leads_nowhere_is_left(extractor: Extractor) -> None:
    """The cheapest way to compute value 1 leaves no kernels that agree on value 2; the next cheapest does."""
    columns = (
        Column(0, (), 1.0, ((1, 10), (2, 20))),
        Column(0, (), 3.0, ((1, 11), (2, 21))),
        Column(1, (), 1.0, ((1, 11), (2, 20))),
        Column(1, (), 1.5, ((1, 10), (2, 22))),
        Column(1, (), 5.0, ((1, 11), (2, 21))),
    )
    result = resolve_disputes(Problem(columns, (0, 1)), extractor)
    assert result is not None
    assert sorted(result.columns) == [1, 4]


@pytest.mark.parametrize("extractor", [pareto, exact])
def test_parts_are_settled_apart(extractor: Extractor) -> None:
    """Value 8 cannot agree. Values 7 are settled all the same, and each by covers of its own part."""
    columns = [Column(0, (), 1.0, ((8, 1),)), Column(1, (), 1.0, ((8, 0),))]
    wanted = [0, 1]
    for part in range(3):
        one, two, value = 2 + 2 * part, 3 + 2 * part, 10 + part
        wanted += [len(columns) + 1, len(columns) + 3]
        columns += [
            Column(one, (), 1.0 + part, ((value, 1),)),
            Column(one, (), 2.0 + part, ((value, 0),)),
            Column(two, (), 5.0, ((value, 1),)),
            Column(two, (), 3.0, ((value, 0),)),
        ]
    sizes: list[int] = []

    def counted(problem: Problem) -> Covering | None:
        sizes.append(len(problem.columns))
        return extractor(problem)

    actual = resolve_disputes(Problem(tuple(columns), tuple(range(8))), counted)
    assert actual is not None
    assert sorted(actual.columns) == wanted
    assert sizes.count(len(columns)) == 1
    assert max(size for size in sizes if size < len(columns)) <= 4


def test_a_dispute_is_settled_among_the_parts_that_it_concerns() -> None:
    """Each link of a chain shares a value with the next link, and all agree on it at the least price. Two buffers of
    the first link dispute another value."""
    links = 12
    columns = [
        Column(0, (), 1.0, ((0, 0),)),
        Column(0, (), 5.0, ((0, 1),)),
        Column(1, (), 1.0, ((0, 1),)),
        Column(1, (), 2.0, ((0, 0),)),
    ]
    for link in range(2, links):
        columns.append(Column(link, (), 1.0, ((link - 1, 0), (link, 0))))
        columns.append(Column(link, (), 2.0, ((link - 1, 1), (link, 1))))
    columns[0] = columns[0]._replace(marks=((0, 0), (1, 0)))
    columns[1] = columns[1]._replace(marks=((0, 1), (1, 0)))
    sizes: list[int] = []

    def counted(problem: Problem) -> Covering | None:
        sizes.append(len(problem.columns))
        return pareto(problem)

    result = resolve_disputes(Problem(tuple(columns), tuple(range(links))), counted)
    assert result is not None
    assert sorted(result.columns) == [0, 3, *range(4, len(columns), 2)]
    assert sizes.count(len(columns)) == 1
    assert max(size for size in sizes if size < len(columns)) <= 4


def test_a_dispute_that_moves_on_is_followed() -> None:
    """What settles the first dispute begins another one with the next buffer, up to the last one."""
    buffers = 6
    columns = [Column(0, (), 1.0, ((0, 0),)), Column(0, (), 9.0, ((0, 1),))]
    for buffer in range(1, buffers):
        columns.append(Column(buffer, (), 1.0, ((buffer - 1, 1), (buffer, int(buffer > 1)))))
        columns.append(Column(buffer, (), 2.0, ((buffer - 1, 0), (buffer, 0))))
    problem = Problem(tuple(columns), tuple(range(buffers)))
    result = resolve_disputes(problem, pareto)
    assert result is not None
    assert agrees(problem, result.columns)
    assert problem.cost_of(result.columns) == pytest.approx(brute_force(problem))
