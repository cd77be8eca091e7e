"""Weights of 16 bits: the scores' factor folded into exponents, approximate exponentials, extreme scores."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from codegen.plan.gpu.score_scale import score_scale
from codegen.plan.stream_view import stream_view
from codegen.poly.analyse import checked_core
from codegen.text.gpu_to_cuda import cuda_text
from ir.region.playback import play_region
from ir.region.region import Region
from tests.support.gpu.emulated import Emulated, assert_near, lowered, plans_of, values_of
from tests.support.programs.stream_regions import attention


def factor_of(one: Region) -> float | None:
    view = stream_view(one, checked_core(one))
    assert view is not None
    scale = score_scale(view)
    return None if scale is None else scale.factor


def test_a_factor_of_all_scores_is_found_below_masks() -> None:
    assert factor_of(attention(2, 9, 12, 16, 16, scale=0.25, dtype="bf16")) == 0.25
    assert factor_of(attention(2, 9, 12, 16, 16, scale=0.25, causal=True, dtype="bf16")) == 0.25
    assert factor_of(attention(2, 9, 12, 16, 16, scale=0.25, mask=True, causal=True, dtype="bf16")) == 0.25


def test_other_scores_keep_their_factor() -> None:
    """With a bias the score is no multiple of the product; a factor above 1 may overflow; one below 0 turns maxima."""
    assert factor_of(attention(2, 9, 12, 16, 16, scale=0.25, bias=True, dtype="bf16")) is None
    assert factor_of(attention(2, 9, 12, 16, 16, scale=None, dtype="bf16")) is None
    for scale in (2.0, -0.5, 0.0):
        assert factor_of(attention(2, 9, 12, 16, 16, scale=scale, dtype="bf16")) is None
    one = attention(2, 9, 12, 16, 16, scale=0.25, mask=True, dtype="bf16")
    asked = next(let for let in one.body if let.name == "masked")
    condition = msgspec.structs.replace(
        one.body[1], name="asks", op=msgspec.structs.replace(one.body[1].op, fn="cmplt", dtype="bool")
    )
    where = msgspec.structs.replace(
        asked.op, inputs=(msgspec.structs.replace(asked.op.inputs[1], value="asks"), *asked.op.inputs[1:])
    )
    body = [
        *one.body[:2],
        condition,
        *(msgspec.structs.replace(let, op=where) if let is asked else let for let in one.body[2:]),
    ]
    assert factor_of(msgspec.structs.replace(one, body=tuple(body))) is None


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 1.0, 1e-3])
@pytest.mark.parametrize("causal", [False, True])
def test_a_folded_factor_gives_what_playback_does(scale: float, causal: bool) -> None:
    one = attention(2, 21, 37, 16, 24, scale=scale, causal=causal, dtype="bf16")
    Emulated([(one, plan) for plan, _ in plans_of(one)[:3]]).assert_all_play()


def test_weights_are_one_multiply_add_and_one_exponential() -> None:
    one = attention(2, 20, 40, 16, 24, scale=0.25, dtype="fp16")
    text = cuda_text(lowered(one, plans_of(one)[0][0]))
    assert "eq_exp2_approx_f32(eq_fma_f32(" in text
    assert "eq_exp_f32" not in text
    wide = attention(2, 20, 40, 16, 24)
    assert "eq_exp2_approx" not in cuda_text(lowered(wide, plans_of(wide)[0][0]))


@pytest.mark.parametrize("size", [3e3, 1e5, 1e15, 1.5e19])
def test_scores_near_the_largest_float_give_finite_weights(size: float) -> None:
    """Products up to 2e38, whose exponents would overflow, and such that lose digits beside their maximum."""
    one = attention(1, 6, 40, 8, 8, scale=1.0, dtype="bf16")
    inputs = values_of(one)
    inputs["Q"] = np.zeros_like(inputs["Q"])
    inputs["K"] = np.zeros_like(inputs["K"])
    inputs["Q"][..., 0] = size
    inputs["K"][0, :, 0] = np.linspace(-0.9, 0.9, 40) * size
    wanted = play_region(one, inputs, wide=True)["O"]
    assert np.isfinite(wanted).all()
    emulated = Emulated([(one, plan) for plan, _ in plans_of(one)[:2]])
    for number in range(2):
        report, outputs = emulated.run(number, inputs)
        report.require_clean()
        assert_near(outputs["O"].astype(np.float64), wanted, 1e-2, str(one))
