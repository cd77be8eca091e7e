"""The e-graph engine is loaded without the Python package around it."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from eqsat.egraph.engine import EGraph
graph = EGraph(["(datatype Number (Zero))", "(let zero (Zero))"])
assert graph.sizes()["Zero"] == 1
assert "egglog" not in sys.modules
import egglog
from egglog import bindings
assert isinstance(graph._egraph, bindings.EGraph)
assert egglog.bindings is bindings
assert egglog.EGraph().run(1) is not None
"""


def test_whoever_imports_egglog_gets_the_module_that_is_loaded() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
