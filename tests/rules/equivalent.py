"""Surviving mutants that are no mistakes: why the mutant is as sound as its rule, by rule and change.

`tests.rules.test_mutants` fails where a survivor is missing here, and where an entry has no survivor.
"""

from __future__ import annotations

WORTH = "the condition keeps e-graphs small: without it the rule is sound, only not worth its nodes"
FEWER = "the condition asks more than the rule needs, so that the mutant applies to fewer terms, all of them sound"
COMMUTES = "the op commutes, bit for bit"
IMPLIED = "a primitive of the right side answers nothing elsewhere"
LEVEL = (
    "it differs by a rounding of a narrow float: that is its level, not its value, and bounds do not count roundings"
)
WIDER = "playback and kernels compute a contraction as wide as its operands, so that a wider product is no loss"
HUGE = "only squares beyond fp64 overflow, and other levels may not be asked to bear inputs that large"
ALSO = "the equation holds there as well; the condition says what the rule is for"
WHICHEVER = "a sum is the same whichever are added first; facts tell which of them are products"
ZEROS = "only the sign of a zero among the weights may change, and the sum of what it multiplies hides that"
CANCELS = "of the bounded values that are compared, none overflows or cancels"
UNREAD = "it changes the other part of the merged product, which is read by that part's own rule"
GRANTED = "where x is finite, as the condition asks, it is right at any level; only at range may x be taken for finite"
ORDER = "playback sums a contraction in index order; kernels choose theirs, and that makes the level"
SMALL = "sums of few short integers are exact in fp32, too; sums of many are not, which makes the level"

EMPTY = "of no element one side is ±∞, the other that or NaN, which above exact may stand for each other"

EQUIVALENT: dict[tuple[str, str], str] = {
    ("inline_producer", "without moves(m, t)"): WORTH,
    ("sum_of_products", "without reduces(k)"): WORTH,
    ("sum_of_integer_products", "without reduces(k)"): WORTH,
    ("sum_of_integer_products", "d ↔ k in reduces(k)"): WORTH,
    ("sum_of_integer_products", "p ↔ q on the right"): COMMUTES,
    ("product_of_short_integers", "p ↔ q on the right"): COMMUTES,
    ("product_of_short_integers", "at the level exact"): SMALL,
    ("scale_after_left_integers", "without Short(p)"): WORTH,
    ("scale_before_left_integers", "without Short(p)"): WORTH,
    ("scale_after_right_integers", "without Short(p)"): WORTH,
    ("scale_before_right_integers", "without Short(p)"): WORTH,
    ("number_after_left_integers", "without Short(p)"): WORTH,
    ("number_before_left_integers", "without Short(p)"): WORTH,
    ("number_after_right_integers", "without Short(p)"): WORTH,
    ("number_before_right_integers", "without Short(p)"): WORTH,
    ("sum_of_narrow_products", "without reduces(k)"): WORTH,
    ("sum_of_cast_products", "without reduces(k)"): WORTH,
    ("compose_movements", "without moves(n, t)"): WORTH,
    ("compose_movements", "m ↔ n in moves(n, t)"): WORTH,
    ("fuse_epilogue", "without moves(m, t)"): WORTH,
    ("fuse_epilogue", "without non_expanding(m)"): WORTH,
    ("finish_on_chip", "without broadcasts(m, t)"): WORTH,
    ("view_through_contraction", "p ↔ q on the right"): COMMUTES,
    ("sum_repeated", "without accumulates_exactly(d)"): LEVEL,
    ("sum_of_products", "without accumulates_exactly(d)"): LEVEL,
    ("sum_of_products", "p ↔ q on the right"): COMMUTES,
    ("sum_of_products", "at the level exact"): ORDER,
    ("sum_of_narrow_products", "c ↔ d in accumulates(c, d)"): WIDER,
    ("sum_of_narrow_products", "p ↔ q on the right"): COMMUTES,
    ("sum_of_cast_products", "without accumulates(w, d)"): LEVEL,
    ("sum_of_cast_products", "c ↔ d in accumulates(c, d)"): WIDER,
    ("sum_of_cast_products", "c ↔ w in accumulates(w, d)"): LEVEL,
    ("sum_of_cast_products", "d ↔ w in accumulates(w, d)"): LEVEL,
    ("sum_of_cast_products", "p ↔ q on the right"): COMMUTES,
    ("round_trip", "p ↔ q on the right"): COMMUTES,
    ("divide_by_number", "without accumulates_exactly(d)"): LEVEL,
    ("regroup_numbers", "without accumulates_exactly(d)"): LEVEL,
    ("number_into_scaled_sum", "without accumulates_exactly(d)"): LEVEL,
    ("number_into_number_and_addend_before", "without accumulates_exactly(d)"): LEVEL,
    ("number_into_number_and_addend_after", "without accumulates_exactly(d)"): LEVEL,
    ("extremum_of_extremum", "p ↔ q on the right"): COMMUTES,
    ("subtract_negative", "p ↔ q on the right"): COMMUTES,
    ("quotient", "without accumulates_exactly(d)"): LEVEL,
    ("exp2_of_scaled", "without accumulates_exactly(d)"): LEVEL,
    ("log2_scaled", "without accumulates_exactly(d)"): LEVEL,
    ("log_scaled", "without accumulates_exactly(d)"): LEVEL,
    ("cube", "without accumulates_exactly(d)"): LEVEL,
    ("root_of_square", "at the level rounding"): HUGE,
    ("index_and_index", "without one_of(o, add sub)"): IMPLIED,
    ("product_of_exps", "p ↔ q on the right"): COMMUTES,
    ("regroup_exactly", "u ↔ v on the right"): COMMUTES,
    ("number_and_chosen_numbers", "without one_of(o, sub fdiv quotient idiv mod pow)"): WORTH,
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
        if (name, change) != ("invariant_divisor", "without is_float(d)")
    },
    **{
        (f"{name}_of_{side}_operand", change): why
        for name in ("factor", "invariant", "divisor")
        for side in ("left", "right")
        for change, why in (
            ("without accumulates_exactly(d)", LEVEL),
            *((("without is_float(d)", ALSO),) if name != "divisor" else ()),
            ("p ↔ q on the right", COMMUTES),
        )
    },
    ("factor_of_narrow_sum", "without one_of(c, fp16 bf16)"): LEVEL,
    ("factor_of_narrow_sum", "without one_of(d, fp16 bf16 fp32)"): LEVEL,
    ("factor_of_narrow_sum", "c ↔ d in one_of(c, fp16 bf16)"): LEVEL,
    ("factor_of_narrow_sum", "c ↔ d in one_of(d, fp16 bf16 fp32)"): FEWER,
    ("addend_of_sum", "without finite(v)"): CANCELS,
    ("addend_of_sum", "at the level rounding"): CANCELS,
    ("sum_of_number", "without accumulates_exactly(d)"): LEVEL,
    ("invariant_addend_of_extremum", "without nonempty(k)"): EMPTY,
    ("greatest_along_its_axis", "without several(k)"): WORTH,
    ("nest_scores", "without picks(m, t, k)"): WORTH,
    ("nest_into_maximum", "without picks(m, t, k)"): WORTH,
    **{
        (f"stream_{name}", change): LEVEL
        for name in ("sum", "weighted_left", "weighted_right")
        for change in ("without accumulates(c, d)", "c ↔ d in accumulates(c, d)")
    },
    **{
        (f"drop_narrowing_cast_{side}", change): why
        for side in ("left", "right")
        for change, why in (
            ("without one_of(c, fp16 bf16)", WORTH),
            ("c ↔ d in one_of(c, fp16 bf16)", FEWER),
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
        )
    },
    **{
        (f"regroup_{outer}_product_by_{waiting}{narrow}", change): why
        for outer in ("left", "right")
        for waiting in ("left", "right")
        for narrow in ("", "_narrow")
        for change, why in (
            *((("without accumulates_exactly(d)", LEVEL),) if not narrow else ()),
            (f"without computes_less({outer}, c, at, a, b, k, j)", WORTH),
            (f"a ↔ b in computes_less({outer}, c, at, a, b, k, j)", WORTH),
        )
    },
    **{
        (f"regroup_{outer}_product_by_{waiting}_of_constants", "without accumulates_exactly(d)"): LEVEL
        for outer in ("left", "right")
        for waiting in ("left", "right")
    },
    **{
        (f"expand_{side}_sum_with_{place}_product", "without accumulates_exactly(d)"): LEVEL
        for side in ("left", "right")
        for place in ("left", "right")
    },
    **{
        (f"pass_over_addend{both}_{first}_{last}", change): why
        for both, swaps in (
            ("", ("p ↔ q", "p ↔ r", "q ↔ r")),
            ("s", ("p ↔ q", "p ↔ r", "p ↔ s", "q ↔ r", "q ↔ s", "r ↔ s")),
        )
        for first in ("left", "right")
        for last in ("left", "right")
        for change, why in (
            ("without accumulates_exactly(d)", LEVEL),
            *((f"{swap} on the right", WHICHEVER) for swap in swaps),
        )
    },
    **{
        (name, change): why
        for name in (
            *(f"mean_beside_{side}_constants" for side in ("left", "right")),
            *(
                f"shift_on_the_{place}_beside_{side}_constants"
                for place in ("left", "right")
                for side in ("left", "right")
            ),
        )
        for change, why in (("without accumulates_exactly(d)", LEVEL), ("at the level rounding", CANCELS))
    },
    **{
        (f"scale_on_the_{place}_of_operand_into_{side}_constants", change): why
        for place in ("left", "right")
        for side in ("left", "right")
        for change, why in (
            ("without accumulates_exactly(d)", LEVEL),
            ("without is_float(d)", ALSO),
            ("without depends_on_less(b, w)", WORTH),
            ("b ↔ w in depends_on_less(b, w)", WORTH),
        )
    },
    **{
        (f"statistic_{inner}_of_scale_{outer}_of_{side}_operand", change): why
        for inner in ("left", "right")
        for outer in ("left", "right")
        for side in ("left", "right")
        for change, why in (
            ("without accumulates_exactly(d)", LEVEL),
            ("without is_float(d)", ALSO),
            ("p ↔ q on the right", COMMUTES),
        )
    },
    ("collect_left_factor", "without accumulates_exactly(d)"): LEVEL,
    ("collect_right_factor", "without accumulates_exactly(d)"): LEVEL,
    ("add_merged_products", "without moves(m, t)"): WORTH,
    ("add_merged_products", "d ↔ t in moves(m, t)"): WORTH,
    ("add_before_rounding", "without one_of(o, add sub)"): ALSO,
    **{
        (name, change): why
        for name in (
            *("number_into_left_constants", "number_into_right_constants", "number_into_factor"),
            *(f"number_into_scale_and_addend_{place}" for place in ("before", "after")),
        )
        for change, why in (
            ("without accumulates_exactly(d)", LEVEL),
            ("without is_float(d)", ALSO),
            ("without finite(v)", CANCELS),
        )
    },
    **{
        (f"scale_on_the_{place}_into_{side}_constants", change): why
        for place in ("left", "right")
        for side in ("left", "right")
        for change, why in (
            ("without accumulates_exactly(d)", LEVEL),
            ("without is_float(d)", ALSO),
            ("without depends_on_less(summed_over(beside(b, at, t), k), w)", WORTH),
            ("b ↔ w in depends_on_less(summed_over(beside(b, at, t), k), w)", WORTH),
        )
    },
    **{
        (f"{part}_part_{which}beside_constants", f"without are_{size}(t, xa, a, xb, b)"): WORTH
        for part in ("first", "second")
        for which, size in (("", "partial"), ("of_all_", "whole"))
    },
    **{
        (f"{part}_part_{'of_all_' * last}by_{side}_weights", "at the level exact"): ZEROS
        for part in ("first", "second")
        for last in (False, True)
        for side in ("left", "right")
    },
    **{
        (f"{part}_part_{'of_all_' * last}by_{side}_weights", f"_shifted_map({read}) for {read}, place {place}"): UNREAD
        for side, places in (("left", (2, 19)), ("right", (7, 24)))
        for (part, read), place in zip((("second", "a"), ("first", "b")), places, strict=True)
        for last in (False, True)
    },
    **{
        (f"{part}_part_{'of_all_' * last}beside_constants", f"_shifted_map({read}) for {read}, place {place}"): UNREAD
        for part, read, place in (("second", "a", 8), ("first", "b", 25))
        for last in (False, True)
    },
    **{(f"enlarge_{side}_weights", "at the level rounding"): GRANTED for side in ("left", "right")},
    **{
        (f"stack_{'narrow_' * narrow}products_with_{side}_weights", change): why
        for side in ("left", "right")
        for narrow in (False, True)
        for change, why in (
            ("without one_of(d, fp16 bf16)", ALSO) if narrow else ("without accumulates_exactly(d)", LEVEL),
            ("without without_unit(k)", WORTH),
            ("without without_unit(j)", WORTH),
            ("without non_expanding(atx)", WORTH),
            ("without non_expanding(aty)", WORTH),
            ("j ↔ k in without_unit(j)", WORTH),
            ("j ↔ k in without_unit(k)", WORTH),
            ("atx ↔ x in non_expanding(atx)", WORTH),
            ("aty ↔ x in non_expanding(aty)", WORTH),
            ("a ↔ atx in non_expanding(atx)", WORTH),
            ("a ↔ aty in non_expanding(aty)", WORTH),
            ("atx ↔ y in non_expanding(atx)", WORTH),
            ("atx ↔ b in non_expanding(atx)", WORTH),
            ("atx ↔ aty in non_expanding(atx)", WORTH),
            ("atx ↔ aty in non_expanding(aty)", WORTH),
            ("aty ↔ y in non_expanding(aty)", WORTH),
            ("aty ↔ b in non_expanding(aty)", WORTH),
        )
    },
}
