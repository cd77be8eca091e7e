"""The page of a run in a real browser: it shows what the run holds, by mouse and by keys, without any network."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eqsat import tensor as t
from eqsat.explanation.explore import Exploration, explore, explore_parts
from eqsat.explanation.html_page import page, write_page
from tests.support.browser import browser
from tests.support.programs import graphs

WIDTH, HEIGHT = 1440, 900
LARGEST_BYTES, SLOWEST_SECONDS = 5_000_000, 3.0


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as result:
        yield result


@pytest.fixture(scope="module")
def run() -> Exploration:
    return explore(graphs.attention(length=16, width=16), target="cpu")


@pytest.fixture(scope="module")
def written(run: Exploration, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "run.html"
    run.html(path, "attention")
    return path


class Opened:
    """A page that is open, with all that went wrong and all that it asked the network for."""

    def __init__(self, chromium: Any, path: Path, fragment: str = "", **context: Any) -> None:
        self.context = chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT}, **context)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))
        start = time.perf_counter()
        self.page.goto(f"{path.as_uri()}{fragment}")
        self.page.wait_for_selector("html[data-ready=yes]")
        self.seconds = time.perf_counter() - start

    @property
    def title(self) -> str:
        """The heading of the details."""
        return str(self.page.inner_text("#details h2"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def node(self, graph: str, name: str) -> Any:
        return self.page.locator(f'#{graph} .node[data-id="{name}"]')


@pytest.fixture
def opened(chromium: Any, written: Path) -> Iterator[Opened]:
    result = Opened(chromium, written)
    yield result
    assert result.errors == []
    assert [url for url in result.requests if not url.startswith(("file:", "data:"))] == []
    result.context.close()


@pytest.mark.slow
def test_it_shows_the_kernels_with_their_prices(opened: Opened, run: Exploration) -> None:
    assert opened.page.title() == "attention"
    assert f"{run.uops}" in opened.page.inner_text(".tiles")
    assert opened.page.locator("#kernels .node.kernel").count() == len(run.kernels)
    dearest = max(run.kernels, key=lambda kernel: kernel.estimated_ns)
    assert opened.title.startswith(f"{', '.join(dearest.writes)} = {dearest.name}")
    assert f"{dearest.estimated_ns / 1e3:.2f} µs" in opened.page.inner_text("#details")


@pytest.mark.slow
def test_no_text_is_wider_than_its_node(chromium: Any, tmp_path: Path) -> None:
    x, y = t.input("x", (512, 512)), t.input("y", (512, 512))
    explore(x @ y, target="cpu").html(tmp_path / "dot.html")
    opened = Opened(chromium, tmp_path / "dot.html")
    for graph, key in (("kernels", "1"), ("uops", "2")):
        opened.press(key, "0")
        wide = opened.page.evaluate(f"""[...document.querySelectorAll("#{graph} .node")].filter((node) => {{
            const box = node.querySelector("rect").getBoundingClientRect();
            return [...node.querySelectorAll("text")].some((each) => each.getBoundingClientRect().width > box.width);
        }}).map((node) => node.dataset.id)""")
        assert wide == []
    opened.context.close()


@pytest.mark.slow
def test_a_kernel_shows_its_candidates_and_its_chain(opened: Opened, run: Exploration) -> None:
    for place, kernel in enumerate(run.kernels):
        opened.press("0")
        opened.node("kernels", f"k{place}").click()
        assert opened.title.startswith(f"{', '.join(kernel.writes)} = {kernel.name}")
        rows = opened.page.locator("#details table tbody tr").count()
        assert rows == (len(kernel.selection.rivals) + 1 if kernel.selection.rivals else 0)
        for number, output in enumerate(kernel.writes):
            chain, steps = run.chain(output), opened.page.locator("ol.chain").nth(number)
            assert steps.locator("> li").count() == len(chain.steps) + 2
            terms = steps.locator(".term").all_inner_texts()
            assert terms[-1] == f"{chain.output} = {chain.end}"
            assert [step.before for step in chain.steps] == terms[1:-1:2]
            assert [step.after for step in chain.steps] == terms[2:-1:2]
    opened.page.check(".switch input")
    shown = opened.page.locator("ol.chain > li.movement:visible").count()
    assert shown == 0


@pytest.mark.slow
def test_the_tabs_open_by_click_and_by_key(opened: Opened, run: Exploration) -> None:
    panels = ("kernels", "uops", "prices", "rewrites", "source", "rules", "run")
    for number, name in enumerate(panels, 1):
        opened.press(str(number))
        assert [panel for panel in panels if opened.page.locator(f"#{panel}").is_visible()] == [name]
    opened.page.click("#tab-uops")
    opened.page.click("text=All uops")
    assert opened.page.locator("#uops .node").count() == run.uops
    opened.page.locator("#tab-uops").press("ArrowRight")
    assert opened.page.locator("#prices").is_visible()
    assert opened.page.locator("#prices tbody tr").count() == len(run.kernels)
    opened.press("6")
    assert opened.page.locator("#rules tbody tr").count() == len(run.matches)
    opened.press("7")
    assert opened.page.locator("#run tbody tr").count() == len(run.phases)
    opened.page.locator("#run .plot").hover()
    assert "e-nodes" in opened.page.inner_text("#at")


@pytest.mark.slow
def test_search_finds_kernels_rules_and_uops_by_keyboard(opened: Opened, run: Exploration) -> None:
    kernel = run.kernels[-1]
    opened.press("/")
    opened.page.keyboard.type(kernel.writes[0])
    opened.press("Enter")
    assert opened.title.startswith(f"{kernel.writes[0]} = ")
    opened.press("/")
    opened.page.keyboard.type("contract sum_of_products")
    opened.press("Enter")
    assert opened.title.startswith("sum_of_products")
    opened.press("/")
    opened.page.keyboard.type("n8 reduce")
    opened.press("Enter")
    assert opened.title.startswith("n8")
    assert opened.page.locator("#uops").is_visible()
    opened.press("/")
    opened.page.keyboard.type("nothing is called so")
    assert "Nothing is called so" in opened.page.inner_text("#found")
    opened.press("Escape")
    assert not opened.page.locator("#found").is_visible()


@pytest.mark.slow
def test_uops_lead_to_their_kernels_and_back(opened: Opened, run: Exploration) -> None:
    opened.press("2")
    opened.page.click("text=All uops")
    opened.press("0")
    place, kernel = next((place, kernel) for place, kernel in enumerate(run.kernels) if kernel.uops)
    opened.node("uops", kernel.uops[-1]).click()
    assert opened.title.startswith(kernel.uops[-1])
    opened.page.locator("#details .link", has_text=f"{kernel.writes[0]} = ").first.click()
    assert opened.title.startswith(f"{kernel.writes[0]} = {kernel.name}")
    assert opened.page.locator("#kernels").is_visible()
    opened.page.locator("#details .chip", has_text=re.compile(f"^{kernel.uops[0]}$")).click()
    assert opened.page.locator("#uops").is_visible()
    assert run.kernels[place].uops[0] in opened.title


@pytest.mark.slow
def test_zoom_pan_and_walking_by_keys(opened: Opened) -> None:
    def scale() -> float:
        style = opened.page.locator("#kernels .world").get_attribute("style")
        return float(re.search(r"scale\(([\d.]+)\)", style).group(1))  # type: ignore[union-attr]

    opened.press("0")
    fitted = scale()
    opened.press("+", "+")
    assert scale() > fitted * 1.5
    opened.page.mouse.move(300, 400)
    grown, end = scale(), time.monotonic() + 5
    opened.page.mouse.wheel(0, 400)
    while scale() >= grown and time.monotonic() < end:
        opened.page.wait_for_timeout(20)
    assert scale() < grown
    before = opened.page.locator("#kernels .world").get_attribute("style")
    opened.page.mouse.down()
    opened.page.mouse.move(360, 460, steps=4)
    opened.page.mouse.up()
    assert opened.page.locator("#kernels .world").get_attribute("style") != before
    opened.press("0")
    assert scale() == fitted
    opened.page.locator('#kernels .node[tabindex="0"]').focus()
    opened.press("ArrowDown", "Enter")
    assert " = " in opened.title


@pytest.mark.slow
def test_the_theme_can_be_switched(opened: Opened, chromium: Any, written: Path) -> None:
    def ground() -> str:
        return str(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = ground()
    opened.page.click("#theme")
    assert ground() != light
    opened.press("t")
    assert ground() == light
    dark = Opened(chromium, written, color_scheme="dark")
    assert dark.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    dark.context.close()


@pytest.mark.slow
def test_an_edge_tells_why_its_ends_are_two_kernels(opened: Opened, run: Exploration) -> None:
    first, second = next(
        (first, second)
        for second, kernel in enumerate(run.kernels)
        for first in range(second)
        if set(run.kernels[first].writes) & set(kernel.reads)
    )
    opened.node("kernels", f"k{second}").click()
    opened.page.locator("#details h3", has_text="not one kernel with").locator("+ div .link").first.click()
    assert opened.page.locator("#kernels .edge.on").count() == 1
    shown = opened.page.inner_text("#details")
    assert "Why they are not one kernel" in shown
    verdicts = [run.why_not(a, b).verdict for a in range(second + 1) for b in range(len(run.kernels)) if a < b]
    assert any(verdict in shown for verdict in verdicts)
    assert run.why_not(first, second).verdict in opened.page.evaluate("JSON.stringify(data.program.edges)")


@pytest.mark.slow
def test_addresses_lead_to_what_they_name(opened: Opened, run: Exploration) -> None:
    kernel = run.kernels[1]
    title = f"{', '.join(kernel.writes)} = {kernel.name}"
    for fragment, heading, view in (
        (f"kernel={kernel.writes[0]}", title, "kernels"),
        (f"kernel={kernel.name}", title, "kernels"),
        (f"tab=source&kernel={kernel.name}", title, "source"),
        ("tab=prices", "", "prices"),
        ("rule=sum_of_products", "sum_of_products", "rules"),
        ("uop=n8", "n8", "uops"),
    ):
        opened.page.evaluate(f"location.hash = {fragment!r}")
        opened.page.wait_for_selector(f"#{view}:visible")
        assert opened.title.startswith(heading)
    opened.page.evaluate("location.hash = 'kernel=no_such_kernel'")
    assert "There is no kernel called “no_such_kernel”" in opened.page.inner_text("[role=alert]")
    opened.page.evaluate(f"location.hash = 'kernel={kernel.name}'")
    opened.page.wait_for_selector('#kernels .node.here[data-id="k1"]')
    opened.press("3")
    assert opened.page.url.endswith(f"#tab=prices&kernel={kernel.name}")
    assert opened.page.locator("#prices tr.chosen .link").inner_text() == title


@pytest.mark.slow
def test_a_chain_is_played_with_the_graphs_before_and_after(opened: Opened, run: Exploration) -> None:
    place = max(range(len(run.kernels)), key=lambda place: len(run.chain(place).steps))
    chain = run.chain(place)
    opened.page.evaluate(f"location.hash = 'tab=rewrites&kernel={run.kernels[place].name}'")
    rewrites = opened.page.locator("#rewrites .step-text")
    for number, step in enumerate(chain.steps, 1):
        assert f"{number} of {len(chain.steps)}" in opened.page.inner_text(".bar-of-player")
        assert rewrites.locator(".term").all_inner_texts() == [step.before, step.after]
        assert opened.page.locator("#rewrites .node.gone, #rewrites .node.fresh").count() > 0
        opened.press("ArrowRight")
    after = opened.page.locator("#rewrites .pane").nth(1).locator(".node").all_inner_texts()
    opened.press("Home", "End")
    assert opened.page.locator("#rewrites .pane").nth(1).locator(".node").all_inner_texts() == after
    assert f"step={len(chain.steps)}" in opened.page.url
    opened.press("Home", " ")
    opened.page.wait_for_selector(f"text=2 of {len(chain.steps)}")


@pytest.mark.slow
def test_a_page_of_parts_shows_texts_and_measured_times(chromium: Any, run: Exploration, tmp_path: Path) -> None:
    measured = [msgspec.structs.replace(kernel, measured_ns=2 * kernel.estimated_ns) for kernel in run.kernels]
    write_page({"main": run, "block1": run}, tmp_path / "parts.html", measured=measured)
    opened = Opened(chromium, tmp_path / "parts.html", "#part=block1&tab=prices")
    assert opened.page.input_value("#part") == "block1"
    assert set(opened.page.locator("#prices tbody tr td:nth-child(5)").all_inner_texts()) == {"0.50"}
    assert "measured" in opened.page.inner_text(".tiles")
    opened.press("5")
    assert opened.page.inner_text("pre.code") in "".join(run.source())
    opened.page.select_option("#part", "main")
    opened.page.wait_for_selector("html[data-ready=yes]")
    assert opened.errors == []
    opened.context.close()


@pytest.mark.slow
def test_no_view_is_cut_at_either_width(chromium: Any, written: Path) -> None:
    for width in (1000, 1600):
        opened = Opened(chromium, written)
        opened.page.set_viewport_size({"width": width, "height": 900})
        for key, view in (("3", "prices"), ("6", "rules"), ("7", "run")):
            opened.press(key)
            wider = opened.page.evaluate(f"(v => v.scrollWidth - v.clientWidth)(document.getElementById({view!r}))")
            assert wider <= 0, f"{view} at {width}"
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        opened.context.close()


@pytest.mark.slow
def test_differences_of_times_have_one_sign(chromium: Any, written: Path) -> None:
    opened = Opened(chromium, written)
    assert opened.page.evaluate("[signed(-18880), signed(18880), signed(0), signed(null)]") == [
        "−18.88 µs",
        "+18.88 µs",
        "±0",
        "",
    ]
    opened.context.close()


def test_tables_are_sorted_by_their_columns(opened: Opened, run: Exploration) -> None:
    opened.press("3")
    shares = opened.page.locator("#prices tbody tr td:nth-child(4)").all_inner_texts()
    figures = [float(share.split()[0]) for share in shares]
    assert figures == sorted(figures, reverse=True)
    opened.page.locator("#prices th button", has_text="#").click()
    opened.page.locator("#prices th button", has_text="#").click()
    places = [int(text) for text in opened.page.locator("#prices tbody tr td:nth-child(1)").all_inner_texts()]
    assert places == list(range(1, len(run.kernels) + 1))


@pytest.mark.slow
def test_names_are_text_and_never_markup(chromium: Any, tmp_path: Path) -> None:
    name = "</script><img src=x onerror=alert(1)>"
    run = explore((t.input(name, (4, 5)) + 1).relu(), target="cpu")
    write_page(run, tmp_path / "p.html", title="<b>bold</b>", with_dot=False)
    opened = Opened(chromium, tmp_path / "p.html")
    assert opened.page.title() == "<b>bold</b>"
    assert opened.page.locator("img").count() == 0
    assert name in opened.page.inner_text("#details")
    assert opened.errors == []
    opened.context.close()


@pytest.mark.slow
def test_a_program_without_kernels_has_a_page(chromium: Any, tmp_path: Path) -> None:
    tiny = graphs.Tiny()
    explore(tiny.graph(tiny.input("x", 3))).html(tmp_path / "p.html")
    opened = Opened(chromium, tmp_path / "p.html")
    opened.press("1", "2", "3", "4", "5", "6", "7", "0", "+")
    assert opened.errors == []
    opened.context.close()


def test_the_page_holds_all_that_it_needs(run: Exploration) -> None:
    text = page(run, with_dot=False)
    assert not re.findall(
        r"""(?:src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", text.split('id="data"')[0]
    )
    assert page(run, with_dot=False) == text


@pytest.mark.exhaustive
def test_resnet_50_stays_usable(chromium: Any, tmp_path: Path) -> None:
    run = max(explore_parts(graphs.resnet50(), target="cpu").values(), key=lambda run: run.uops)
    path = tmp_path / "resnet50.html"
    run.html(path)
    assert path.stat().st_size < LARGEST_BYTES
    opened = Opened(chromium, path)
    assert opened.seconds < SLOWEST_SECONDS
    start = time.perf_counter()
    opened.press("2")
    opened.page.wait_for_selector("#uops .node")
    assert opened.page.locator("#uops .node").count() < 100
    opened.page.click("text=All uops")
    assert opened.page.locator("#uops .node").count() == run.uops
    opened.press("/")
    opened.page.keyboard.type(run.kernels[-1].writes[0])
    opened.press("Enter")
    assert opened.title.startswith(run.kernels[-1].writes[0])
    assert time.perf_counter() - start < SLOWEST_SECONDS
    assert opened.errors == []
    opened.context.close()
