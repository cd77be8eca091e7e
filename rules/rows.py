"""Rows: a statistic of a row is finished on chip, and is read again by the kernel that computed it.

A statistic (a maximum, a sum, or a value made of these) that is read at fewer axes than its reader has stays inside the
reader's kernel. It is finished once per point of its axes, before the ops that read it run. Softmax, log-softmax and
the norms become one kernel each, since each step of theirs reads the statistics before it in this way.
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
