"""Rows: what is reduced from a row of values is finished on chip, and read again by the kernel that reduced it.

A statistic (a maximum, a sum, what is made of them) that is read at fewer axes than its reader has stays inside the
reader's kernel: it is finished once per point of the axes it has, before the others run. Softmax, log-softmax and the
norms become one kernel each, since every step of theirs reads the statistics before it in this way.
"""

from __future__ import annotations

from ir.term.language import At, Load, Store
from ir.term.rule import Rule, pattern_variables
from rules.analyses import Held, Statistic
from rules.primitives import broadcasts

FAMILY = "rows"

e, t, m = pattern_variables("e:E t:S m:S")
_read = Load(Store(e, t), m)

RULES = (
    Rule("finish_on_chip", FAMILY, "{e}[m(i)] = ⟨e⟩[m(i)]",
         _read, At(e, t, m), (broadcasts(m, t), Held(_read), Statistic(e))),
)  # fmt: skip
