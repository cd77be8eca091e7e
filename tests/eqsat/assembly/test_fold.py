"""Constants are folded when the program is built; those that no run reads are freed."""

import numpy as np

from eqsat.assembly.assemble import assemble
from eqsat.assembly.fold import fold
from eqsat.extraction.extract import extract
from tests.support.programs.graphs import Tiny
from tests.support.stages.approximate import ApproximatePricer, saturated


def test_only_what_a_run_reads_is_kept() -> None:
    """w and exp(w) are read while the program is built; runs read x and b, and the program returns b."""
    t = Tiny()
    x, w, b = t.input("x", 4), t.input("w", 4, 6), t.input("b", 4)
    total = t.reduce("SUM", t.op("EXP", w), 1)
    shares = t.reduce("MAX", t.op("MUL", t.op("EXP", w), t.expand(t.reshape(t.op("RECIP", total), 4, 1), 4, 6)), 1)
    graph, view = saturated(t.graph(t.op("ADD", t.op("MUL", x, shares), b), b))
    constants = ("w", "b")
    cover = extract(view, graph.outputs, ApproximatePricer(), constants=constants)
    module = assemble(cover, view, graph, constants).module
    rng = np.random.default_rng(0)
    arrays = {"w": rng.standard_normal((4, 6), np.float32), "b": rng.standard_normal(4, np.float32)}
    kept = fold(module, arrays)
    (call,) = module.running
    assert set(kept) == {name for name in call.reads if name != "x"} | {"b"}
    exp = np.exp(arrays["w"])
    (result,) = kept.keys() - {"b"}
    np.testing.assert_allclose(kept[result].ravel(), (exp / exp.sum(1, keepdims=True)).max(1), rtol=1e-6)
