"""The page in a real browser: every kind of puzzle, by mouse and by keyboard, and what a visitor takes away."""

import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Download, Page, expect, sync_playwright

from gram.config import Recipe
from tests.serve.helpers import ROOT, Running, save_random_model, served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install Debian's package, apt install chromium")

TINY_COLOURING = (
    "task.options.size=4 model.dim=32 model.token_hidden=32 model.channel_hidden=48 train.steps=300 train.slots=32 "
    "train.threads=1 train.warmup=20 train.lr=0.005 train.eval_every=300 train.log_every=150 eval.depth=6 eval.width=20"
)
WAIT = 90_000
"""Milliseconds: the machine may be busy."""


@pytest.fixture(scope="module")
def models(queens_recipe: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Shipped models, a small one of colouring that is trained here, and a deterministic one of 8 queens."""
    folder = tmp_path_factory.mktemp("page")
    recipe = "colouring-8/gram"
    command = [sys.executable, "-m", "gram", "train", str(recipe), "--out", str(folder / "colouring")]
    subprocess.run([*command, *TINY_COLOURING.split()], check=True, capture_output=True, cwd=ROOT)
    eight = queens_recipe(task={"options": {"size": 8}}, model={"guidance": "none"}, eval={"depth": 8})
    save_random_model(eight, folder / "trm")
    shipped = ["nqueens-8", "sudoku-extreme", "sudoku-generation", "digits"]
    return [*shipped, str(folder / "colouring"), str(folder / "trm")]


@pytest.fixture(scope="module")
def server(models: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("log"), *models) as running:
        yield running.until_ready()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, server: Running) -> Iterator[Callable[..., Page]]:
    """visit(path, **context): a page; at the end, no other host was asked and nothing went wrong in it."""
    pages, hosts, problems = [], set(), []

    def open_page(path: str = "/", **options: Any) -> Page:
        context = browser.new_context(**{"reduced_motion": "reduce", "accept_downloads": True, **options})
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: line.type in ("error", "warning") and problems.append(line.text))
        page.goto(server.address + path)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.context.close()
    assert {host for host in hosts if host} <= {server.address.removeprefix("http://")}
    assert [text for text in problems if "422" not in text] == []


def choose(page: Page, label: str) -> None:
    expect(page.locator("#run")).to_be_enabled(timeout=WAIT)
    page.get_by_role("radio", name=label, exact=True).check(force=True)


def run(page: Page) -> None:
    page.locator("#run").click()
    expect(page.locator("#keep")).to_be_visible(timeout=WAIT)


def taken(page: Page, button: str) -> bytes:
    with page.expect_download() as coming:
        page.get_by_role("button", name=button, exact=True).click()
    download: Download = coming.value
    return Path(download.path()).read_bytes()


def outputs(page: Page) -> list[list[int]]:
    run = json.loads(taken(page, "JSON"))
    return [row["output"] for row in run["result"]["trajectories"]]


def test_queens_are_solved_and_counted(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, "8 queens")
    page.get_by_role("gridcell", name="row 1, column 4: queen").click()  # takes it away
    page.get_by_role("gridcell", name="row 3, column 1: empty").click()
    expect(page.locator("#halt")).to_be_checked()  # as the model was tuned
    page.locator("#halt").uncheck()
    run(page)
    expect(page.locator("#status")).to_have_text(
        re.compile(r"20 trajectories: \d+ verified, \d+ distinct solutions?\.")
    )
    expect(page.locator("#wall .tile")).to_have_count(20)
    distinct = int(page.locator("#found-count strong").inner_text())
    assert distinct == page.locator("#found li").count() >= 2
    expect(page.locator("#estimate")).to_contain_text("in all")
    expect(page.locator("#wall .tile").first).to_have_attribute(
        "aria-label", re.compile(r"Trajectory 1: step 8, value")
    )


def test_a_sudoku_typed_by_hand_is_solved(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, "Sudoku")
    first = page.get_by_role("gridcell", name="row 1, column 1: 5")
    first.click()
    page.keyboard.press("Backspace")
    expect(page.get_by_role("gridcell", name="row 1, column 1: empty")).to_be_focused()
    page.get_by_role("group", name="Digit for the chosen cell").get_by_role("button", name="5").click()
    run(page)
    expect(page.locator("#status")).to_contain_text("1 distinct solution.")


def test_a_graph_drawn_by_hand_is_coloured(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, "Colouring 4")
    page.get_by_role("button", name="Clear").click()
    graph = page.locator("svg.graph")
    box = graph.bounding_box()
    for x, y in ((0.2, 0.2), (0.8, 0.2), (0.8, 0.8)):
        graph.click(position={"x": x * box["width"], "y": y * box["height"]})
    page.get_by_role("button", name="Add a vertex").click()
    for a, b in ((0, 1), (1, 2), (2, 3)):
        page.locator(f"[data-vertex='{a}']").click()
        page.locator(f"[data-vertex='{b}']").click()
    expect(page.get_by_text("4 of 4 vertices, 3 edges.")).to_be_visible()
    run(page)
    expect(page.locator("#status")).to_contain_text("verified")
    assert page.locator("#found li").count() >= 1
    assert "places=0.2" in page.url


@pytest.mark.parametrize(("label", "status"), [("Sudoku boards", "distinct"), ("Digits", "from nothing")])
def test_boards_and_images_are_generated(visit: Callable[..., Page], label: str, status: str) -> None:
    page = visit()
    choose(page, label)
    expect(page.locator("#editor")).to_contain_text("A blank board")
    page.locator("#width").fill("6")
    run(page)
    expect(page.locator("#status")).to_contain_text(status)
    expect(page.locator("#wall .tile")).to_have_count(6)


def test_the_scrubber_goes_back_and_a_link_reproduces_the_run(visit: Callable[..., Page], server: Running) -> None:
    page = visit()
    choose(page, "8 queens")
    page.locator("#seed").fill("7")
    page.locator("#halt").uncheck()
    run(page)
    found = int(page.locator("#found-count strong").inner_text())
    page.locator("#scrub").fill("1")
    expect(page.locator("#step")).to_have_text("step 1 of 8")
    expect(page.locator("#status")).to_contain_text("step 1 of 8")
    assert int(page.locator("#found-count strong").inner_text()) < found
    again = visit(page.url.removeprefix(server.address))
    expect(again.locator("#keep")).to_be_visible(timeout=WAIT)
    assert again.locator("#seed").input_value() == "7"
    assert outputs(again) == outputs(page)


def test_a_temperature_is_asked_for_only_if_its_dial_was_moved(visit: Callable[..., Page]) -> None:
    """Asked for, it is constant; the model's own may fall over the depth."""
    page = visit()
    choose(page, "8 queens")
    run(page)
    assert "temperature=" not in page.url
    page.locator("#temperature").fill("0.5")
    run(page)
    assert "temperature=0.5" in page.url
    choose(page, "8 queens")
    choose(page, "Digits")
    run(page)
    assert "temperature=" not in page.url


def test_a_run_is_watched_as_it_happens(visit: Callable[..., Page]) -> None:
    page = visit(reduced_motion="no-preference")
    choose(page, "8 queens")
    run(page)
    expect(page.locator("#play")).to_have_text("Pause")
    seen = {page.locator("#step").inner_text() for _ in range(40) if page.wait_for_timeout(40) is None}
    assert len(seen) > 1
    page.locator("#play").click()
    expect(page.locator("#play")).to_have_text("Play")  # drawn in one frame with the step at which it stops
    stopped = page.locator("#step").inner_text()
    page.wait_for_timeout(500)
    assert page.locator("#step").inner_text() == stopped


def test_bad_input_is_shown_kindly_and_nothing_is_lost(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, "8 queens")
    page.get_by_role("gridcell", name="row 1, column 5: empty").click()
    expect(page.get_by_role("gridcell", name="row 1, column 5: queen, breaks a rule")).to_be_visible()
    page.locator("#run").click()
    expect(page.locator("#problem")).to_contain_text("attack each other")
    page.get_by_role("gridcell", name="row 1, column 5: queen, breaks a rule").click()
    expect(page.locator("#problem")).to_be_empty()
    run(page)


def test_everything_works_by_keyboard_alone(visit: Callable[..., Page]) -> None:
    page = visit()
    expect(page.locator("#run")).to_be_enabled(timeout=WAIT)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "gridcell":
            break
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("gridcell", name="row 3, column 1: queen")).to_be_focused()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "run":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#keep")).to_be_visible(timeout=WAIT)
    page.locator("#scrub").focus()
    page.keyboard.press("Home")
    expect(page.locator("#step")).to_have_text(re.compile(r"^step 0 of \d+$"))
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step")).to_have_text(re.compile(r"^step 1 of \d+$"))


def test_a_deterministic_model_stands_beside_the_random_one(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, "8 queens")
    page.locator("#beside").check()
    run(page)
    expect(page.locator("#rival")).to_contain_text("one deterministic path")
    expect(page.locator("#rival")).to_contain_text("it thinks the same")
    expect(page.locator("#wall .tile")).to_have_count(20)


def test_downloads_are_what_they_say(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, "8 queens")
    page.locator("#width").fill("4")
    page.locator("#depth").fill("3")
    page.locator("#halt").uncheck()
    run(page)
    recorded = json.loads(taken(page, "JSON"))
    assert [len(steps) for steps in recorded["steps"]] == [3] * 4
    assert recorded["request"]["width"] == 4
    picture = Image.open(io.BytesIO(taken(page, "PNG")))
    assert picture.format == "PNG"
    film = Image.open(io.BytesIO(taken(page, "GIF")))
    assert (film.format, film.n_frames) == ("GIF", 3)
    shown = film.convert("RGB")
    assert shown.getpixel((2, 2)) == pytest.approx((250, 249, 246), abs=8)  # the colour of the page
    assert len(shown.getcolors(1 << 16)) > 10


@pytest.mark.parametrize(
    "options",
    [
        {"viewport": {"width": 1440, "height": 900}},
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
    ],
    ids=["desktop-light", "phone-dark"],
)
def test_axe_finds_no_violations(visit: Callable[..., Page], options: dict[str, Any]) -> None:
    page, axe = visit(**options), Axe()

    def check(page: Page) -> None:
        found = axe.run(page)
        assert found.violations_count == 0, found.generate_report()

    check(page)
    choose(page, "8 queens")
    run(page)
    check(page)
    choose(page, "Colouring 4")
    check(page)
    docs = visit("/docs", **options)
    expect(docs.get_by_text("/v1/generate", exact=True).first).to_be_visible()
    check(docs)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow  # it measures time: on a busy machine it says little
def test_the_first_paint_does_not_wait_for_the_models(browser: Browser, models: list[str], tmp_path: Path) -> None:
    with served(tmp_path, *models) as server:
        page = browser.new_context().new_page()
        times = []
        for _ in range(3):
            page.goto(server.address)
            loading = page.locator("#run").is_disabled()
            page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
            painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            assert page.locator("#gallery canvas").count() >= 4
            times.append((painted, loading))
        page.context.close()
    assert any(painted < 1000 and loading for painted, loading in times), times


def test_a_token_is_asked_for(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open-sesame")
    with served(tmp_path, "nqueens-8", "--token-file", tmp_path / "token") as server:
        server.until_ready()
        page = browser.new_context(reduced_motion="reduce").new_page()
        page.goto(server.address)
        page.get_by_label("This service wants a token").fill("open-sesame")
        page.keyboard.press("Enter")
        expect(page.locator("#run")).to_be_enabled(timeout=WAIT)
        run(page)
        page.context.close()
