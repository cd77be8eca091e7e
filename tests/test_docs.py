"""The documentation is written by the code that runs."""

from docs.make_walkthrough import PAGE, page


def test_the_walkthrough_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.make_walkthrough`"
