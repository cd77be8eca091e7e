"""Surviving mutants that are no mistakes: why the mutant is as sound as its rule, by rule and change.

`tests.rules.test_mutants` fails where a survivor is missing here, and where an entry has no survivor.
"""

from __future__ import annotations

WORTH = "the condition keeps e-graphs small: without it the rule is sound, only not worth its nodes"
FEWER = "the condition asks more than the rule needs, so that the mutant applies to fewer terms, all of them sound"
COMMUTES = "the op commutes, bit for bit"
IMPLIED = "a primitive of the right side answers nothing elsewhere"
SAME = "with these ops the two dtypes are one"
DOMAIN = "a map that runs backwards has the same domain, and repeats along the same axes"
COUNT = "only how many sizes there are counts, and the mutant has as many"
WHERE = "WHERE is the only ternary op, and its values outside are one fill, which both operands have"
LEVEL = (
    "it differs by a rounding of a narrow float: that is its level, not its value, and bounds do not count roundings"
)
WIDER = "playback and kernels compute a contraction as wide as its operands, so that a wider product is no loss"
HUGE = "only squares beyond fp64 overflow, and other levels may not be asked to bear inputs that large"
RANGE = "only the range of the index counts, and a map that runs backwards has the same"
ALSO = "the equation holds there as well; the condition says what the rule is for"
CANCELS = "of the bounded values that are compared, none overflows or cancels"
ORDER = "playback sums a contraction in index order; kernels choose theirs, and that makes the level"

EQUIVALENT: dict[tuple[str, str], str] = {
    ("inline_producer", "without moves(m, t)"): WORTH,
    ("compose_movements", "without moves(n, t)"): WORTH,
    ("compose_movements", "m ↔ n in moves(n, t)"): WORTH,
    ("fuse_epilogue", "without moves(m, t)"): WORTH,
    ("fuse_epilogue", "without non_expanding(m)"): WORTH,
    ("finish_on_chip", "without broadcasts(m, t)"): WORTH,
    ("view_of_imm", "k ↔ v in filled_with(n, d, v)"): FEWER,
    ("view_of_imm", "_shifted_map(n) for n, place 0"): DOMAIN,
    ("view_through_binary_imm", "_shifted_map(n) for n, place 2"): DOMAIN,
    ("view_through_imm_binary", "_shifted_map(n) for n, place 0"): DOMAIN,
    ("view_through_ternary", "2 for 1, place 3"): WHERE,
    ("view_through_epilogue_ternary", "2 for 1, place 3"): WHERE,
    ("view_through_contraction", "p ↔ q on the right"): COMMUTES,
    ("reduce_repeated_extremum", "_shifted_map(m) for m, place 0"): DOMAIN,
    ("sum_repeated", "without accumulates_exactly(d)"): LEVEL,
    ("sum_repeated", "_shifted_map(m) for m, place 0"): DOMAIN,
    ("sum_repeated", "_shifted_map(m) for m, place 4"): DOMAIN,
    ("sum_repeated", "_shifted_map(m) for m, place 6"): DOMAIN,
    ("sum_repeated", "_shifted_sizes(k) for k, place 7"): COUNT,
    ("sum_of_products", "without accumulates_exactly(d)"): LEVEL,
    ("sum_of_products", "p ↔ q on the right"): COMMUTES,
    ("sum_of_products", "at the level exact"): ORDER,
    ("sum_of_narrow_products", "c ↔ d in accumulates(c, d)"): WIDER,
    ("sum_of_narrow_products", "p ↔ q on the right"): COMMUTES,
    ("sum_of_cast_products", "without accumulates(w, d)"): LEVEL,
    ("sum_of_cast_products", "c ↔ d in accumulates(c, d)"): WIDER,
    ("sum_of_cast_products", "c ↔ d in accumulates(w, d)"): LEVEL,
    ("sum_of_cast_products", "c ↔ w in accumulates(w, d)"): LEVEL,
    ("sum_of_cast_products", "d ↔ w in accumulates(c, d)"): WIDER,
    ("sum_of_cast_products", "d ↔ w in accumulates(w, d)"): LEVEL,
    ("sum_of_cast_products", "p ↔ q on the right"): COMMUTES,
    ("compare_to_the_right", "without one_of(o, cmplt cmple cmpgt cmpge)"): IMPLIED,
    ("divide_by_number", "without accumulates_exactly(d)"): LEVEL,
    ("regroup_exactly", "u ↔ v on the right"): COMMUTES,
    ("regroup_numbers", "without accumulates_exactly(d)"): LEVEL,
    ("regroup_numbers", "u ↔ v on the right"): COMMUTES,
    ("divide_twice", "u ↔ v on the right"): COMMUTES,
    ("extremum_of_extremum", "p ↔ q on the right"): COMMUTES,
    ("subtract_negative", "p ↔ q on the right"): COMMUTES,
    ("quotient", "without accumulates_exactly(d)"): LEVEL,
    ("op_of_equals", "_shifted_map(m) for m, place 0"): DOMAIN,
    ("exp2_of_scaled", "without accumulates_exactly(d)"): LEVEL,
    ("log2_scaled", "without accumulates_exactly(d)"): LEVEL,
    ("log_scaled", "without accumulates_exactly(d)"): LEVEL,
    ("cube", "without accumulates_exactly(d)"): LEVEL,
    ("root_of_square", "at the level rounding"): HUGE,
    ("cast_of_bool", "_shifted_map(m) for m, place 1"): DOMAIN,
    ("cast_of_bool", "_shifted_map(m) for m, place 2"): DOMAIN,
    ("index_and_number", "without one_of(o, add sub mul idiv mod)"): IMPLIED,
    ("index_and_index", "without one_of(o, add sub)"): IMPLIED,
    ("compare_index_with_number", "without one_of(o, cmplt cmple cmpgt cmpge cmpeq cmpne)"): IMPLIED,
    ("compare_index_with_number", "_shifted_map(m) for m, place 0"): RANGE,
    ("compare_index_with_number", "_shifted_map(m) for m, place 1"): DOMAIN,
    ("compare_index_with_index", "without one_of(o, cmplt cmple cmpgt cmpge cmpeq cmpne)"): IMPLIED,
    ("compare_index_with_index", "_shifted_map(m) for m, place 2"): DOMAIN,
    ("product_of_exps", "p ↔ q on the right"): COMMUTES,
    ("number_and_chosen_numbers", "without one_of(o, sub fdiv idiv mod pow)"): WORTH,
    ("number_and_chosen_numbers", "c ↔ d on the right"): SAME,
    ("comparison_decided", "without one_of(o, cmplt cmple cmpgt cmpge)"): IMPLIED,
    ("not_of_comparison", "without one_of(o, cmplt cmple cmpgt cmpge cmpeq cmpne)"): IMPLIED,
    ("drop_widening_cast_left", "p ↔ q on the right"): COMMUTES,
    ("drop_widening_cast_right", "p ↔ q on the right"): COMMUTES,
    **{
        (f"nested_{name}", change): WORTH
        for name in ("extrema", "integer_sums", "sums")
        for change in (
            "without without_unit(k)",
            "without without_unit(j)",
            "without non_expanding(m)",
            "j ↔ k in without_unit(k)",
            "j ↔ k in without_unit(j)",
        )
    },
    ("nested_integer_sums", "without one_of(o, sum prod)"): ALSO,
    ("nested_integer_sums", "d ↔ j in without_unit(j)"): WORTH,
    ("nested_integer_sums", "d ↔ k in without_unit(k)"): WORTH,
    ("nested_sums", "without one_of(o, sum prod)"): ALSO,
    ("nested_sums", "without is_float(d)"): ALSO,
    **{
        (name, f"_shifted_sizes(k) for k, place {place}"): COUNT
        for name, place in (
            ("integer_factor_of_sum", 2),
            ("factor_of_sum", 2),
            ("factor_of_narrow_sum", 2),
            ("invariant_factor_right", 2),
            ("invariant_factor_left", 1),
            ("invariant_divisor", 2),
            ("integer_addend_of_sum", 3),
            ("addend_of_sum", 3),
            ("sum_of_number", 2),
            ("extremum_of_number", 1),
            ("positive_factor_of_extremum", 2),
            ("negative_factor_of_max", 2),
            ("negative_factor_of_min", 2),
            ("addend_of_extremum", 2),
            ("invariant_addend_of_extremum", 2),
        )
    },
    **{
        (name, change): why
        for name in (
            "factor_of_sum",
            "negative_of_sum",
            "invariant_factor_right",
            "invariant_factor_left",
            "invariant_divisor",
            "addend_of_sum",
        )
        for change, why in (("without accumulates_exactly(d)", LEVEL), ("without is_float(d)", ALSO))
    },
    **{
        (f"{name}_of_{side}_operand", change): why
        for name in ("factor", "invariant", "divisor")
        for side in ("left", "right")
        for change, why in (
            ("without accumulates_exactly(d)", LEVEL),
            ("without is_float(d)", ALSO),
            ("p ↔ q on the right", COMMUTES),
            ("_shifted_sizes(k) for k, place 2", COUNT),
        )
    },
    ("factor_of_narrow_sum", "without one_of(c, fp16 bf16)"): LEVEL,
    ("factor_of_narrow_sum", "without one_of(d, fp16 bf16 fp32)"): LEVEL,
    ("factor_of_narrow_sum", "c ↔ d in one_of(c, fp16 bf16)"): LEVEL,
    ("factor_of_narrow_sum", "c ↔ d in one_of(d, fp16 bf16 fp32)"): FEWER,
    ("addend_of_sum", "without finite(v)"): CANCELS,
    ("addend_of_sum", "at the level rounding"): CANCELS,
    ("sum_of_number", "without accumulates_exactly(d)"): LEVEL,
    ("extremum_of_number", "k ↔ s in nonempty(k)"): FEWER,
    ("greatest_along_its_axis", "without several(k)"): WORTH,
    ("greatest_along_its_axis", "_shifted_map(m) for m, place 0"): DOMAIN,
    ("greatest_along_its_axis", "_shifted_sizes(k) for k, place 3"): COUNT,
    ("nest_scores", "without picks(m, t, k)"): WORTH,
    ("nest_into_maximum", "without picks(m, t, k)"): WORTH,
    **{
        (f"stream_{name}", change): LEVEL
        for name in ("sum", "weighted_left", "weighted_right")
        for change in ("without accumulates(c, d)", "c ↔ d in accumulates(c, d)")
    },
    **{
        (f"drop_narrowing_cast_{side}", change): why
        for side, operand in (("left", "p"), ("right", "q"))
        for change, why in (
            ("without one_of(c, fp16 bf16)", WORTH),
            ("c ↔ d in one_of(c, fp16 bf16)", FEWER),
            (f"c ↔ d in accumulates(ProDtype({operand}), d)", FEWER),
            ("p ↔ q on the right", COMMUTES),
        )
    },
    **{
        (f"{name}_of_narrow_{side}_operand", change): why
        for name in ("factor", "invariant", "divisor")
        for side in ("left", "right")
        for change, why in (
            ("without one_of(c, fp16 bf16)", LEVEL),
            ("without one_of(d, fp16 bf16 fp32)", LEVEL),
            ("c ↔ d in one_of(c, fp16 bf16)", LEVEL),
            ("c ↔ d in one_of(d, fp16 bf16 fp32)", FEWER),
            ("p ↔ q on the right", COMMUTES),
            ("_shifted_sizes(k) for k, place 2", COUNT),
        )
    },
}
