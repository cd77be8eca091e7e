"""Articles and plurals of messages."""

from __future__ import annotations

from ir.grammar import with_article, with_count


def test_articles_and_plurals() -> None:
    assert [with_article(noun) for noun in ("int", "Epi", "list", "uint8")] == ["an int", "an Epi", "a list", "a uint8"]
    assert [with_count(count, "operand") for count in (0, 1, 2)] == ["0 operands", "1 operand", "2 operands"]
    assert with_count(2, "entry", "entries") == "2 entries"
    assert with_count(1200, "e-node") == "1,200 e-nodes"
