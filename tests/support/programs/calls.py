"""Tiny text of programs that call graphs."""

from __future__ import annotations

LINEAR = """
graph @linear(%x: fp32[n, k], %w: fp32[k, m]) {
  %a = reshape(%x, result_shape=[n, 1, k])
  %l: fp32[n, m, k] = expand(%a)
  %t = permute(%w, perm=[1, 0])
  %b = reshape(%t, result_shape=[1, m, k])
  %r: fp32[n, m, k] = expand(%b)
  %p = mul(%l, %r)
  %y: fp32[n, m] = reduce(%p, axes=[k], op=SUM)
  return %y
}
graph @block(%x: fp32[n, k], %w: fp32[k, k]) {
  %h = call @linear(%x, %w)
  %y = relu(%h)
  return %y, %h
}
"""
TWO_LAYERS = (
    LINEAR
    + """
%x: fp32[batch, 3] = input()
%w: fp32[3, 3] = input()
%v: fp32[3, 5] = input()
%one, %before = call @block(%x, %w)
%two: fp32[batch, 5] = call @linear(%one, %v)
return %two, %before
"""
)
